// The rows of the option table about where nodes and workers meet, and about the hosts of a job
// that is started through ssh.
#pragma once

#include <array>

#include "launcher/options/enum_words.hpp"
#include "launcher/options/option_table.hpp"

namespace ddprun::launcher {

inline constexpr std::array kRendezvousRows = {
    OptionRow{
        .name = "standalone",
        .environment = "PET_STANDALONE",
        .type = ValueType::flag,
        .group = OptionGroup::rendezvous,
        .help = "A job on this machine only: --rdzv-id, address and port are ignored",
        .more = "A job of one node without --master-port has a free port of its own, also without "
                "this option. With --nnodes=1:MAX the job has one node; other values of --nnodes "
                "are refused.",
        .example = "ddprun --standalone --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "master-addr",
        .environment = "PET_MASTER_ADDR",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "HOST",
        .help = "Address of the workers' store, MASTER_ADDR",
        .more =
            "With several nodes (and --rdzv-backend=static): name or address of the node with rank "
            "0, the same text on each node. If the name does not resolve yet, ddprun tries again.",
        .default_text = "127.0.0.1",
        .example = "ddprun --master-addr=node1 --nnodes=2 --node-rank=0 train.py",
    },
    OptionRow{
        .name = "master-port",
        .environment = "PET_MASTER_PORT",
        .type = ValueType::count,
        .group = OptionGroup::rendezvous,
        .placeholder = "PORT",
        .help = "Port of the workers' store, MASTER_PORT",
        .more = "Several nodes also meet at this port, so they need no other.",
        .default_text = "a free one; 29500 for several nodes",
        .example = "ddprun --master-port=29500 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "worker-store",
        .type = ValueType::choice,
        .choices = choices<WorkerStore>,
        .group = OptionGroup::rendezvous,
        .help = "Which process serves the workers' TCPStore",
        .more = "agent: ddprun serves a new store for each round. rank0: the worker of rank 0 "
                "serves it, as in plain PyTorch. Use it for a PyTorch that is newer than this "
                "ddprun, or built without libuv (then also set USE_LIBUV=0).",
        .default_value = "agent",
        .example = "ddprun --worker-store=rank0 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "store-allow-uid",
        .type = ValueType::indexes_or_word,
        .choices = "any",
        .group = OptionGroup::rendezvous,
        .placeholder = "UID,...",
        .help = "Other users of this machine who may use the store",
        .default_text = "none: only your own user and root",
        .example = "ddprun --store-allow-uid=1000,1001 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "rdzv-id",
        .aliases = "job-id",
        .environment = "PET_RDZV_ID",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "ID",
        .help = "Name of the run, TORCHELASTIC_RUN_ID",
        .more = "Agents with the same id and the same rendezvous form one job.",
        .default_text = "date, time and a random number; for several nodes the word 'none'",
        .example =
            "ddprun --rdzv-id=job7 --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=node1 train.py",
    },
    OptionRow{
        .name = "rdzv-backend",
        .environment = "PET_RDZV_BACKEND",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "NAME",
        .help = "How several nodes meet: static, c10d, etcd; one node needs none",
        .more =
            "static: the node with --node-rank=0 serves --master-addr and --master-port, and "
            "each node knows its rank. c10d: the same command on each node; the node that has "
            "the endpoint's address serves it. With both, the job ends if that node is lost "
            "and does not come back; with rdzvd on another machine it does not. etcd or etcd-v2: "
            "over an etcd 3.4 or newer, at its address as the endpoint, without rdzvd; one of "
            "the first three nodes serves the job, and another one if that is lost.",
        .default_value = "static",
        .example = "ddprun --rdzv-backend=c10d --nnodes=2 --rdzv-endpoint=node1 train.py",
    },
    OptionRow{
        .name = "rdzv-endpoint",
        .aliases = "master",
        .environment = "PET_RDZV_ENDPOINT",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "HOST[:PORT][,...]",
        .help = "Address of the rendezvous, where the nodes of a job meet",
        .more = "Name or address of one of the nodes, or of a machine that runs rdzvd. [::1]:29500 "
                "for IPv6. The default port is 29400. With the static backend it is MASTER_ADDR "
                "and MASTER_PORT. Several with commas between them: those of rdzvd that share a "
                "journal in etcd, or with --rdzv-backend=etcd members of etcd, with 2379 as their "
                "default port.",
        .example = "ddprun --rdzv-endpoint=node1:29400 --nnodes=2 --rdzv-backend=c10d train.py",
    },
    OptionRow{
        .name = "rdzv-conf",
        .environment = "PET_RDZV_CONF",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "KEY=VALUE,...",
        .help = "Settings of the rendezvous: join_timeout, last_call_timeout, "
                "keep_alive_interval, keep_alive_max_attempt, lost_timeout (seconds), is_host, "
                "etcd_prefix, and how to get into etcd",
        .more =
            "For several nodes. join_timeout or timeout: seconds within which a round must form "
            "(600); last_call_timeout: how long to wait for more nodes when MIN have joined (30); "
            "keep_alive_interval and keep_alive_max_attempt: a node that is silent for their "
            "product (5 x 3) is lost; is_host: 1 runs the rendezvous on this machine, 0 does not; "
            "lost_timeout: how long the job waits for a lost rendezvous (300); etcd_prefix: where "
            "etcd has the job's keys (ddprun); protocol: https for an etcd with TLS; cacert or "
            "ca_cert: its authorities (PEM); cert and key, or ssl_cert and ssl_cert_key: this "
            "node's certificate for it; etcd_user and etcd_password_file: log in to it. torchrun's "
            "other keys are accepted; an unknown key causes one warning, with the nearest known "
            "key.",
        .example = "ddprun --rdzv-conf=join_timeout=1800 --nnodes=2 --rdzv-backend=c10d "
                   "--rdzv-endpoint=node1 train.py",
    },
    OptionRow{
        .name = "node-rank",
        .aliases = "rank",
        .environment = "PET_NODE_RANK",
        .type = ValueType::count,
        .group = OptionGroup::rendezvous,
        .placeholder = "N",
        .help = "Rank of this node among all nodes, GROUP_RANK",
        .more = "With --rdzv-backend=static each node needs its own, and rank 0 is the node at "
                "--master-addr. With c10d nodes are ordered by their names (node2 before node10), "
                "those that join a running job come after the others, and a rank that is given is "
                "used if it is free.",
        .default_value = "0",
        .example = "ddprun --node-rank=1 --nnodes=2 --master-addr=node1 train.py",
    },
    OptionRow{
        .name = "local-addr",
        .aliases = "host",
        .environment = "PET_LOCAL_ADDR",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "HOST",
        .help = "Address of this machine for the other nodes",
        .more = "If it is absent, the other nodes use the address from which this machine reaches "
                "the rendezvous. In a job of one node it is used if --master-addr is absent.",
        .example = "ddprun --local-addr=10.0.0.7 --nnodes=2 --rdzv-backend=c10d "
                   "--rdzv-endpoint=node1 train.py",
    },
    OptionRow{
        .name = "port-range",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "FIRST:LAST",
        .help = "Choose free ports only from this range, for firewalls",
        .more = "Ports that you name (--master-port, --rdzv-endpoint) may lie outside.",
        .default_text = "any",
        .example = "ddprun --port-range=30000:30100 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "grow-delay",
        .type = ValueType::seconds_or_word,
        .choices = "never",
        .group = OptionGroup::rendezvous,
        .placeholder = "SECONDS",
        .help = "Time from a new node's joining to the restart that includes it",
        .more = "A running job with fewer than MAX nodes (--nnodes=MIN:MAX) restarts its workers "
                "to include new nodes. It does so at once when MAX have joined. never: new nodes "
                "wait until a round ends for another reason.",
        .default_value = "5",
        .example = "ddprun --grow-delay=60 --nnodes=2:4 --rdzv-backend=c10d --rdzv-endpoint=node1 "
                   "train.py",
    },
    OptionRow{
        .name = "rdzv-secret-file",
        .environment = "DDPRUN_SECRET_FILE",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "FILE",
        .help = "Secret that all nodes of the job share",
        .more = "If the rendezvous has a secret, only agents with the same one can join or stop "
                "the job. Other users must not be able to read the file. Without the option ddprun "
                "uses ~/.config/ddprun/secret if that file exists (XDG_CONFIG_HOME is respected).",
        .default_text = "~/.config/ddprun/secret, if there is one",
        .example = "ddprun --rdzv-secret-file=secret --nnodes=2 --rdzv-backend=c10d "
                   "--rdzv-endpoint=node1 train.py",
    },
    OptionRow{
        .name = "rdzv-auth",
        .type = ValueType::choice,
        .choices = choices<RdzvAuth>,
        .group = OptionGroup::rendezvous,
        .help = "How nodes know each other: by a secret, or by their user",
        .more = "required: refuse a rendezvous without this node's secret. munge: only processes "
                "of the same user can join, which MUNGE proves; it must run on every node, and the "
                "job needs no secret. auto: by the secret, if there is one; else by MUNGE, in a "
                "Slurm job where it runs; else the job runs with a warning.",
        .default_value = "auto",
        .example = "ddprun --rdzv-auth=required --rdzv-secret-file=secret --nnodes=2 "
                   "--rdzv-backend=c10d --rdzv-endpoint=node1 train.py",
    },
    OptionRow{
        .name = "rdzv-tls",
        .type = ValueType::flag,
        .group = OptionGroup::rendezvous,
        .help = "Encrypt the connections between nodes and their rendezvous",
        .more = "TLS 1.3 with a key from the job's secret, without certificates, or with those of "
                "--rdzv-tls-ca. Needs OpenSSL "
                "1.1.1 or 3 on every node. All nodes need the option. An rdzvd needs --tls. The "
                "workers' own connections, their store included, are not encrypted.",
        .example = "ddprun --rdzv-tls --rdzv-secret-file=secret --nnodes=2 --rdzv-backend=c10d "
                   "--rdzv-endpoint=node1 train.py",
    },
    OptionRow{
        .name = "rdzv-tls-ca",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "FILE",
        .help = "Encrypt with certificates: the authorities (PEM) of the rendezvous",
        .more = "TLS 1.3. The rendezvous's certificate must be signed by one of these authorities, "
                "and have the host of --rdzv-endpoint (or --master-addr) among its names; over "
                "etcd, the node's own address or --local-addr. No "
                "secret is needed for the encryption. All nodes need the option. An rdzvd needs "
                "--tls-cert and --tls-key.",
        .example = "ddprun --rdzv-tls-ca=ca.pem --nnodes=2 --rdzv-backend=c10d "
                   "--rdzv-endpoint=node1 train.py",
    },
    OptionRow{
        .name = "rdzv-tls-cert",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "FILE",
        .help = "This node's certificate (PEM), with those that lead to its authority",
        .more = "The node that runs the rendezvous needs one with its name, and asks all others "
                "for one. An rdzvd asks for one if it has --tls-ca. The file is read once, at the "
                "start.",
        .example = "ddprun --rdzv-tls-cert=node.pem --rdzv-tls-key=node.key --rdzv-tls-ca=ca.pem "
                   "--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=node1 train.py",
    },
    OptionRow{
        .name = "rdzv-tls-key",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "FILE",
        .help = "Private key (PEM) of the certificate of --rdzv-tls-cert",
        .more = "It must have no pass phrase. Other users should not be able to read it.",
        .example = "ddprun --rdzv-tls-key=node.key --rdzv-tls-cert=node.pem --rdzv-tls-ca=ca.pem "
                   "--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=node1 train.py",
    },
    OptionRow{
        .name = "make-secret",
        .type = ValueType::flag,
        .group = OptionGroup::rendezvous,
        .help = "Write a new secret to the file of --rdzv-secret-file; start nothing",
        .example = "ddprun --make-secret --rdzv-secret-file=secret",
    },
};

inline constexpr std::array kHostRows = {
    OptionRow{
        .name = "hosts",
        .type = ValueType::text,
        .group = OptionGroup::hosts,
        .placeholder = "HOST,...",
        .help = "Start the job on these hosts through ssh; type the command once",
        .more = "Names as ssh takes them, and ranges: a,b[1-4],user@c. a:8 means 8 workers there, "
                "if --nproc-per-node is not given. The first host has the first ranks. This "
                "ddprun has no workers: it runs the rendezvous, shows all output and the report, "
                "and needs no open port. If it ends, or its connection to a host, the job ends "
                "there. --nnodes is the number of hosts, unless it is given: with MIN:MAX hosts "
                "may be missing or be lost.",
        .example = "ddprun --hosts=a,b[1-4] --nproc-per-node=8 train.py",
    },
    OptionRow{
        .name = "hostfile",
        .type = ValueType::text,
        .group = OptionGroup::hosts,
        .placeholder = "FILE",
        .help = "The same hosts from a file, one on each line",
        .more = "Lines are those of DeepSpeed and mpirun: host, host slots=8, host:8, host slots=8 "
                "max_slots=8. A comment begins with #.",
        .example = "ddprun --hostfile=hosts.txt train.py",
    },
    OptionRow{
        .name = "ssh",
        .environment = "DDPRUN_SSH",
        .type = ValueType::text,
        .group = OptionGroup::hosts,
        .placeholder = "COMMAND",
        .help = "The ssh for --hosts, with options of its own",
        .more = "ddprun adds options: it asks no questions (BatchMode=yes), and shares no "
                "connection of yours (ControlPath=none).",
        .default_value = "ssh",
        .example = "ddprun --ssh='ssh -p 2222 -i key' --hosts=a,b train.py",
    },
    OptionRow{
        .name = "remote-path",
        .type = ValueType::text,
        .group = OptionGroup::hosts,
        .placeholder = "PATH",
        .help = "The ddprun on the hosts",
        .more = "It must have the same version as this one.",
        .default_text = "the path of this ddprun, else the one in the host's PATH",
        .example = "ddprun --remote-path=/opt/ddprun/bin/ddprun --hosts=a,b train.py",
    },
    OptionRow{
        .name = "pass-env",
        .type = ValueType::text,
        .group = OptionGroup::hosts,
        .placeholder = "NAME,...",
        .help = "Further environment variables for the hosts",
        .more = "NAME, PREFIX* or NAME=VALUE. Those with which programs and libraries are found "
                "and training is configured (PATH, PYTHON*, NCCL_*, CUDA_*, OMP_* and others, see "
                "docs/ssh.md) are always passed.",
        .example = "ddprun --pass-env=DATA_DIR,MY_* --hosts=a,b train.py",
    },
};

}  // namespace ddprun::launcher
