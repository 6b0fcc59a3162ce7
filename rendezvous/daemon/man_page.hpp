// What rdzvd's man page has around its options.
#pragma once

#include "base/option_text.hpp"

namespace ddprun::rdzv {

inline const ddprun::ManPage kManPage{.name = "rdzvd",
                                      .section = 8,
                                      .begin = R"(.SH NAME
rdzvd \- serves a PyTorch store, for rendezvous and for anyone
.SH SYNOPSIS
.B rdzvd
[\fIOPTIONS\fR]
.SH DESCRIPTION
Serves one key\-value store in the protocol of PyTorch\(aqs TCPStore, in both of its dialects (1.13 and 2.x).
PyTorch\(aqs own clients, torchrun\(aqs agents and the programs of ddprun can use it, unchanged.
The first line on stdout is the address that it listens on.
The keys live in memory and end with the program.
.SH OPTIONS
)",
                                      .end = R"(.SH SIGNALS
SIGTERM, SIGINT and SIGHUP close all connections and end the program with 0.
.SH EXIT STATUS
0 stopped by a signal; 1 it could not listen; 2 the command line is wrong.
.SH EXAMPLES
.TP
.B rdzvd
On 127.0.0.1:29400, for this machine and this user.
.TP
.B rdzvd \-\-listen=[::]:29400 \-\-allow\-uid=any
For the machines of a cluster and all their users.
.TP
.B torchrun \-\-rdzv\-backend=c10d \-\-rdzv\-endpoint=head:29400 \-\-rdzv\-conf=is_host=0 \-\-nnodes=2 train.py
Agents that meet in it.
.SH SECURITY
The protocol has neither authentication nor encryption: whoever can connect can read and change every key.
On loopback the kernel is asked whose each client is; beyond it, only a firewall or a private network keeps strangers out.
.SH SEE ALSO
.BR ddprun (1)
)"};

}  // namespace ddprun::rdzv
