// TorchNodes: has autograd tell when it comes to the nodes that made certain tensors.
//
// A node calls the functions of a dict before it computes (what tensor.register_hook() uses). Ours are made
// once, one dict for each call of a module and end of it, and hung into the nodes of every step that is
// traced. No node is added, and no tensor of the job is touched: torch takes the dict from a tensor, so an
// empty one of our own carries it there. Taking everything out again is emptying the dicts. Where torch has
// no such way, node.register_prehook() does the same, and takes three times as long.
//
// All with the GIL.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "pyapi/python_api.h"
#include "pyapi/ref.h"
#include "torch/backward.h"

namespace probing::torch {

using pyapi::PyObject;
using pyapi::PythonApi;

class TorchNodes {
 public:
  // `carrier` is an empty tensor, or null; `generation` says by changing that the step is over, or the
  // tracing. Both live as long as this is used.
  void Use(const PythonApi& api, PyObject* carrier, const std::uint64_t* generation);
  // Nothing of ours is called any more. What is dropped may run code of the job: it goes to `gone`.
  void Clear(std::vector<pyapi::Ref>* gone);

  // False when no node made the tensor, or when that moment is noted already.
  bool Watch(PyObject* tensor, std::int32_t call, BackwardMoment::Kind kind);
  // Its nodes go when the job drops its loss, soon.
  void StepEnded();

 private:
  struct Hook {
    pyapi::Ref function;
    pyapi::Ref dict;  // of this function alone
  };
  struct Watched {
    std::int64_t sequence = 0;   // of its node: a tensor that is changed in place gets another one
    PyObject* handle = nullptr;  // of register_prehook(); borrowed from handles_
  };
  static std::size_t Place(std::int32_t call, BackwardMoment::Kind kind) {
    return static_cast<std::size_t>(call) * 2 + (kind == BackwardMoment::Kind::kBegin ? 0 : 1);
  }
  bool MakeHooks(std::int32_t call);
  bool WatchNode(PyObject* tensor, PyObject* node, const Hook& hook);
  bool HangIn(PyObject* node, const Hook& hook, pyapi::Ref* handle);
  std::int64_t SequenceOf(PyObject* node);
  bool SameNode(PyObject* handle, PyObject* other) const;
  void Remove(PyObject* handle) const;

  const PythonApi* api_ = nullptr;
  PyObject* carrier_ = nullptr;
  const std::uint64_t* generation_ = nullptr;
  pyapi::Ref names_[5];      // of attributes
  std::vector<Hook> hooks_;  // two for each call of a step, used again in every step
  std::unordered_map<const PyObject*, Watched> watched_;  // addresses; others may have got them since
  std::vector<pyapi::Ref> handles_;                       // which refer to nodes weakly
  std::vector<pyapi::Ref> old_handles_;                   // of the step before
};

}  // namespace probing::torch
