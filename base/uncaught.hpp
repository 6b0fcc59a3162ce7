// What a program does about an exception that is not caught, in whichever thread.
#pragma once

namespace ddprun {

/// From now on such an exception ends the program with one line on stderr and `exit_code`, in place
/// of SIGABRT. Nothing is unwound and no destructor runs: a thread that is joined there may never
/// end. `program` must live as long as the process.
void end_on_uncaught_exception(const char* program, int exit_code);

}  // namespace ddprun
