# cmake -D PAGE=folder -P EmbedPage.cmake: writes page.S, which carries the script and the style of flame graphs.
set(BYTES ".section .rodata\n")
foreach(PART script:flame.js style:flame.css)
  string(REPLACE ":" ";" PART ${PART})
  list(GET PART 0 NAME)
  list(GET PART 1 FILE)
  file(READ ${PAGE}/${FILE} TEXT)
  if(TEXT MATCHES "</(script|style)")
    message(FATAL_ERROR "${FILE} would end the element that it is put into")
  endif()
  string(APPEND BYTES ".globl probing_flame_${NAME}, probing_flame_${NAME}_end\n"
    ".hidden probing_flame_${NAME}, probing_flame_${NAME}_end\n"
    "probing_flame_${NAME}:\n.incbin \"${PAGE}/${FILE}\"\nprobing_flame_${NAME}_end:\n.byte 0\n")
endforeach()
string(APPEND BYTES ".section .note.GNU-stack,\"\",@progbits\n")
file(WRITE ${PAGE}/page.S "${BYTES}")
