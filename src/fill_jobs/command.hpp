// The kind `command`: any program, run unmodified, allowed to run only in bubbles (SIGCONT when one begins, SIGSTOP
// when it ends, to it and everything it starts). One chunk; after a kill it starts from the beginning.
//
// Parameters: argv (the list), environment ("NAME=value", any number), directory (default: the job's own).
#pragma once

#include <pipefill/fill_job.h>

namespace pipefill {

const pipefill_fill_kind* command_kind();

/// Process group of the program that `job`, made by command_kind(), runs now; 0: none.
int program_group(const pipefill_fill_job* job);

}  // namespace pipefill
