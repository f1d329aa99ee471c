#include "unwind/plumbing.h"

#include <algorithm>
#include <array>

namespace probing::unwind {
namespace {

constexpr std::array<std::string_view, 2> kEvalLoops = {"_PyEval_EvalFrameDefault", "PyEval_EvalFrameEx"};

// A name that ends in '*' is a prefix.
constexpr auto kPlumbing = std::to_array<std::string_view>({
    // Calls.
    "PyObject_Call*",
    "PyObject_Vectorcall*",
    "PyVectorcall_Call*",
    "_PyObject_Call*",
    "_PyObject_FastCall*",
    "_PyObject_MakeTpCall*",
    "_PyObject_Vectorcall*",
    "_PyVectorcall_*",
    "_PyFunction_*",
    "_PyStack_*",
    "PyFunction_*",
    "PyCFunction_Call*",
    "_PyCFunction_*",
    "_PyMethodDef_*",
    "_PyMethodDescr_*",
    "cfunction_call*",
    "cfunction_vectorcall*",
    "method_call*",
    "method_vectorcall*",
    "function_call*",
    "function_code_fastcall*",
    "fast_function*",
    "call_function*",
    "call_attribute*",
    "call_unbound*",
    "do_call*",
    "trace_call_function*",
    "object_vacall*",
    "vectorcall_*",
    "slot_tp_call*",
    "type_call*",
    "_TAIL_CALL_*",
    // Around the loop.
    "PyEval_*",
    "_PyEval_*",
    "gen_send_ex*",
    "py_trampoline_evaluator*",
    // From the start of the program, or of a thread.
    "PyRun_*",
    "_PyRun_*",
    "Py_RunMain*",
    "Py_Main*",
    "Py_BytesMain*",
    "_Py_UnixMain*",
    "pymain_*",
    "run_mod*",
    "run_file*",
    "run_eval_code_obj*",
    "pyrun_*",
    "thread_run*",
    "t_bootstrap*",
    "pythread_wrapper*",
});

// Without what the compiler appends to clones: ".cold", ".part.0", ".constprop.0", ".lto_priv.1".
std::string_view WithoutSuffix(std::string_view function) { return function.substr(0, function.find('.')); }

}  // namespace

bool IsEvalLoop(std::string_view function) {
  return std::find(kEvalLoops.begin(), kEvalLoops.end(), WithoutSuffix(function)) != kEvalLoops.end();
}

bool IsPlumbing(std::string_view function) {
  const std::string_view name = WithoutSuffix(function);
  return std::any_of(kPlumbing.begin(), kPlumbing.end(), [&](std::string_view pattern) {
    if (pattern.back() != '*') return name == pattern;
    return name.starts_with(pattern.substr(0, pattern.size() - 1));
  });
}

}  // namespace probing::unwind
