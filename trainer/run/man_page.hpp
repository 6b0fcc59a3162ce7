// What the man page of `train` has around its options.
#pragma once

#include "base/option_text.hpp"

namespace ddprun::trainer {

inline const ddprun::ManPage kManPage{.name = "ddprun-train",
                                      .section = 1,
                                      .begin = R"(.SH NAME
ddprun\-train \- trains a small network with distributed data parallelism on the CPU
.SH SYNOPSIS
.B ddprun
[\fIOPTIONS OF DDPRUN\fR]
.B train
[\fIOPTIONS\fR]
.SH DESCRIPTION
The trainer that comes with ddprun. A global batch is always V shards of b samples; the number of workers only decides
which worker computes which shard. The same V and b give the same weights, to the last bit, with any number of workers,
with accumulation, and across restarts.
.SH OPTIONS
)",
                                      .end = R"(.SH CHECKPOINTS AND RESTARTS
A worker group that ddprun starts again continues from its newest intact checkpoint.
Without \-\-out, checkpoints belong to one run id (ddprun\-out/RUN_ID), so a new run starts fresh.
With \-\-out DIR, the directory is the run: the same DIR continues where it stopped, with any number of workers.
.SH EXIT STATUS
0 done; 1 failed; 2 unusable options, data or checkpoint; 75 another worker was lost.
.SH EXAMPLES
.TP
.B ddprun \-\-nproc\-per\-node=2 train
Two workers, on generated pictures.
.TP
.B ddprun \-\-nproc\-per\-node=2 \-\-max\-restarts=3 train \-\-data DIR \-\-out runs/first
On the MNIST or Fashion\-MNIST files in DIR; the group is started again after a failure.
.SH SEE ALSO
.BR ddprun (1)
)"};

}  // namespace ddprun::trainer
