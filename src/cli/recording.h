// What flamegraph and record share: options, a recording with a progress bar, the file it goes to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "flame/view.h"
#include "observe/stacks/recorder.h"

namespace probing::cli {

// -d, -r, --gil, --idle, --threads, --lines, --native, --async, --subprocesses, --last, --from, --to,
// followed by the command's own.
std::vector<Option> RecordingOptions(std::vector<Option> more);

// What these options select, with a title for the recording; a job gives it one later.
Result<flame::View> ViewOf(const Invocation& invocation);

// Samples the target until the time is up, it ends, or somebody presses ^C. What was not as
// wished (the target ended, samples were lost, nothing was active) is said on stderr; what was
// recorded until then is the result.
Result<observe::Recorder> Record(const Invocation& invocation, const flame::View& view);

// --last, --from, --to: nothing is recorded, probingd has what it sampled.
bool IsOfThePast(const Invocation& invocation);

// The same for a target elsewhere, or of the past: recorded and written in that format by that probingd.
Result<std::string> RecordRemote(const Invocation& invocation, std::string_view format);

// -d: for how many seconds, 10 unless given.
Result<double> Duration(const Invocation& invocation);

// What is left out of a recording, and what that means; on stderr, and so is why a picture of it is empty.
void PrintLosses(const flame::Losses& losses, std::uint64_t samples_taken);
void PrintWhenNothingIsShown(const flame::Profile& profile, const flame::View& view);

// Says before a recording, not after it, that its result could not be written there.
Result<void> CheckWritable(const std::string& path);

// Writes a result to a file and prints its name; "-" is stdout.
Result<void> WriteResult(const std::string& path, std::string_view content);

// Set by SIGINT and SIGTERM once this was called.
void CatchInterrupts();
bool Interrupted();

// How --async is said to another machine: "none", "running" or "all".
std::string_view TasksOf(const Invocation& invocation);

// --native, --async.
observe::SamplerOptions SamplerOptionsOf(const Invocation& invocation);

// -r: samples per second, 100 unless given, at most 10,000.
Result<double> SampleRate(const Invocation& invocation);

}  // namespace probing::cli
