// What the help and the man page of rdzvd say around its options.
#pragma once

#include "rendezvous/daemon/option_examples.hpp"
#include "texts/program_text.hpp"

namespace ddprun::rdzv {

inline constexpr const char* kShortHelp =
    R"(Usage: rdzvd [OPTIONS]

The rendezvous of ddprun jobs of several machines, and a TCPStore of PyTorch
for any client.

  rdzvd                         for this machine and this user
  rdzvd --listen='[::]:29400' --secret-file=FILE
                                for other machines
  rdzvd --status                show the jobs of the rdzvd on this machine
  ddprun --nnodes=2 --rdzv-backend=c10d --rdzv-id=ID --rdzv-endpoint=HOST:29400
         train.py               a job that uses it: type it on each node

  --listen=HOST:PORT    where to listen (default: 127.0.0.1:29400)
  --secret-file=FILE    agents must have this secret (ddprun --make-secret)
  --secret-dir=DIR      each tenant has its own secret
  --tls                 encrypt the connections of agents
  --state-dir=DIR       keep the jobs on the disk, so that they outlive rdzvd
  --journal=etcd://...  keep them in etcd, for several rdzvd
  --status              print the jobs and nodes of a running rdzvd
  --fence=NODE          give up a dead node of the job --run-id
  --endpoint=HOST:PORT  the rendezvous to ask (default: 127.0.0.1:29400)

rdzvd --help lists all options, --help=limits one group; --man explains them.
)";

inline ProgramText daemon_text() {
  return {
      .name = "rdzvd",
      .page = "rdzvd",
      .page_section = 8,
      .purpose = "the rendezvous of ddprun jobs, and a PyTorch TCPStore for any client",
      .synopsis = "rdzvd [OPTIONS]",
      .short_help = kShortHelp,
      .description =
          "rdzvd serves two things at one port. For the agents of ddprun it is the rendezvous of "
          "any number of jobs, each with its own --rdzv-id: it decides when their workers start "
          "and restart. For all other clients it is one key-value store in the protocol of "
          "PyTorch's TCPStore, in both dialects (1.13 and 2.x). PyTorch's own clients and "
          "torchrun's agents can use it unchanged.\n"
          "The first line on stdout is the address at which it listens. Jobs and keys exist only "
          "in memory. If rdzvd is started again, agents that still run join it by themselves, and "
          "their jobs restart once. With --state-dir, rdzvd also keeps the jobs on the disk: if it "
          "is started again, it continues them, and their workers run on.",
      .examples = {{"rdzvd", "on 127.0.0.1:29400, for this machine and this user"},
                   {"rdzvd --listen=127.0.0.1:0",
                    "on a free port; the first line of output shows it"},
                   {"rdzvd --listen='[::]:29400' --allow-uid=any",
                    "for the machines of a cluster and all their users"},
                   {"rdzvd --listen=10.0.0.5:29400 --secret-file=/etc/ddprun/secret",
                    "agents must have the same secret"},
                   {"rdzvd --listen=10.0.0.5:29400 --secret-dir=/etc/ddprun/secrets",
                    "each tenant has its own secret, and sees its own jobs only"},
                   {"rdzvd --listen=10.0.0.5:29400 --state-dir=/var/lib/rdzvd",
                    "jobs continue if rdzvd is started again"},
                   {"rdzvd --listen=10.0.0.5:29400 --journal=etcd://h1:2379,h2:2379,h3:2379",
                    "on several machines: if one ends, another one continues its jobs"},
                   {"rdzvd --status", "show the jobs of the rdzvd on this machine"},
                   {"rdzvd --fence=node7 --run-id=ID --endpoint=HOST:29400",
                    "give up node7, which is switched off"},
                   {"ddprun --nnodes=2 --rdzv-backend=c10d --rdzv-id=ID --rdzv-endpoint=HOST:29400 "
                    "...",
                    "a job of ddprun that uses this rdzvd"},
                   {"torchrun --rdzv-backend=c10d --rdzv-endpoint=HOST:29400 "
                    "--rdzv-conf=is_host=0 ...",
                    "a job of torchrun that uses its store"},
                   {"dist.TCPStore('HOST', 29400, is_master=False)", "a client in Python"}},
      .option_examples = option_examples(),
      .sections =
          {{.title = "Signals",
            .text = "SIGTERM, SIGINT and SIGHUP close all connections and end the program with 0.",
            .in_help = false},
           {.title = "Security",
            .text =
                "The store's protocol has neither authentication nor encryption: any program "
                "that can connect can read and change every key. With --secret-file, only agents "
                "that have the secret can join or stop jobs; without it, any program can. With "
                "--tls, the connections of agents are encrypted, too. With --secret-dir, agents "
                "and --status see and change only the jobs of the secret that "
                "they have.\n"
                "On loopback, rdzvd asks the kernel which user each client belongs to. Beyond "
                "loopback, only a firewall or a private network keeps strangers out of the store."},
           {.title = "Exit status",
            .terms =
                {{"0", "Stopped by SIGTERM, SIGINT or SIGHUP; --status, --fence: done"},
                 {"1",
                  "It could not listen, open a descriptor, start a thread or use the state folder; "
                  "--status, --fence: the job does not exist, or the node is not given up"},
                 {"2", "The command line is wrong, or the secret file or folder cannot be used"},
                 {"69",
                  "--status, --fence: no rendezvous answers at the endpoint, or it has "
                  "another secret"},
                 {"70", "Internal failure, such as too little memory"}}}},
      .see_also = "ddprun(1)"};
}

}  // namespace ddprun::rdzv
