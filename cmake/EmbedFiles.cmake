# cmake -D SITE=folder -D INTO=folder -P EmbedFiles.cmake: writes files.S and files.cc, which carry every
# file below SITE, plain and compressed, as server::StaticFiles().
file(REMOVE_RECURSE ${INTO})
file(MAKE_DIRECTORY ${INTO})
file(GLOB_RECURSE FILES RELATIVE ${SITE} ${SITE}/*)
list(SORT FILES)
set(SYMBOLS "")
set(ROWS "")
set(BYTES ".section .rodata\n")
set(INDEX 0)
foreach(FILE ${FILES})
  set(plain ${SITE}/${FILE})
  set(packed ${INTO}/${INDEX}.gz)
  execute_process(COMMAND gzip -9 -n -c ${plain} OUTPUT_FILE ${packed} COMMAND_ERROR_IS_FATAL ANY)
  set(NAME probing_web_${INDEX})
  foreach(KIND plain packed)
    set(EACH ${NAME}_${KIND})
    string(APPEND BYTES ".globl ${EACH}, ${EACH}_end\n.hidden ${EACH}, ${EACH}_end\n"
      "${EACH}:\n.incbin \"${${KIND}}\"\n${EACH}_end:\n.byte 0\n")
    string(APPEND SYMBOLS "extern \"C\" const char ${EACH}[], ${EACH}_end[];\n")
  endforeach()
  string(APPEND ROWS "      {\"/${FILE}\",\n"
    "       {${NAME}_plain, static_cast<std::size_t>(${NAME}_plain_end - ${NAME}_plain)},\n"
    "       {${NAME}_packed, static_cast<std::size_t>(${NAME}_packed_end - ${NAME}_packed)}},\n")
  math(EXPR INDEX "${INDEX} + 1")
endforeach()
string(APPEND BYTES ".section .note.GNU-stack,\"\",@progbits\n")
file(WRITE ${INTO}/files.S "${BYTES}")
file(WRITE ${INTO}/files.cc
"#include \"server/static_files.h\"

${SYMBOLS}
namespace probing::server {

const std::vector<StaticFile>& StaticFiles() {
  static const std::vector<StaticFile> files{
${ROWS}  };
  return files;
}

}  // namespace probing::server
")
