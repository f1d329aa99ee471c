// Where this process stands in its job, as torch.distributed says: for jobs whose launcher said nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pyapi/python_api.h"

namespace probing::torch {

using pyapi::PyObject;
using pyapi::PythonApi;

struct JobPlace {
  std::int64_t rank = 0;
  std::int64_t world_size = 0;
  std::string roles;  // "dp=0,tp=1": the rank in each kind of parallelism; "" where that is not known
};

// `place` is place_in_job() of job_place.py. With the GIL; nothing is raised.
void NoteJobPlace(const PythonApi& api, PyObject* place);

// What was noted last. Any thread.
std::optional<JobPlace> NotedJobPlace();

// A forked child is nobody yet.
void ForgetJobPlaceInForkedChild();

}  // namespace probing::torch
