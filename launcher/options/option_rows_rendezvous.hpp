// The rows of the option table about where nodes and workers meet.
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
        .help = "Run alone on this machine: ignore --rdzv-id, address and port",
        .more = "Without --master-port a job on one machine has a port of its own anyway.",
    },
    OptionRow{
        .name = "master-addr",
        .environment = "PET_MASTER_ADDR",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "HOST",
        .help = "Where the workers meet, MASTER_ADDR",
        .default_text = "127.0.0.1",
    },
    OptionRow{
        .name = "master-port",
        .environment = "PET_MASTER_PORT",
        .type = ValueType::count,
        .group = OptionGroup::rendezvous,
        .placeholder = "PORT",
        .help = "Where the workers meet, MASTER_PORT",
        .default_text = "a free one",
    },
    OptionRow{
        .name = "worker-store",
        .type = ValueType::choice,
        .choices = choices<WorkerStore>,
        .group = OptionGroup::rendezvous,
        .help = "Which process serves the workers' TCPStore",
        .more = "agent: ddprun serves a new store for each round. rank0: the worker of rank 0 "
                "serves it, as in plain PyTorch; for a PyTorch that is newer than this ddprun, or "
                "built without libuv (then also USE_LIBUV=0).",
        .default_value = "agent",
    },
    OptionRow{
        .name = "store-allow-uid",
        .type = ValueType::indexes_or_word,
        .choices = "any",
        .group = OptionGroup::rendezvous,
        .placeholder = "UID,...",
        .help = "Other users of this machine that may use the store",
        .default_text = "none: only your own user and root",
    },
    OptionRow{
        .name = "rdzv-id",
        .aliases = "job-id",
        .environment = "PET_RDZV_ID",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "ID",
        .help = "Name of the run, TORCHELASTIC_RUN_ID",
        .default_text = "a random UUID",
    },
    OptionRow{
        .name = "rdzv-backend",
        .environment = "PET_RDZV_BACKEND",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "NAME",
        .help = "torchrun's rendezvous: static, c10d, etcd, etcd-v2",
        .more = "One node needs none of them. With static an endpoint is the address and port "
                "where the workers meet, as under torchrun.",
        .default_value = "static",
    },
    OptionRow{
        .name = "rdzv-endpoint",
        .aliases = "master",
        .environment = "PET_RDZV_ENDPOINT",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "HOST[:PORT]",
        .help = "Where the nodes of a job meet",
        .more = "[::1]:29500 for IPv6. With the static backend it is MASTER_ADDR and MASTER_PORT.",
    },
    OptionRow{
        .name = "rdzv-conf",
        .environment = "PET_RDZV_CONF",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "KEY=VALUE,...",
        .help = "Settings of the rendezvous",
        .more =
            "torchrun's keys are understood; an unknown key causes one warning, with the nearest "
            "known key.",
    },
    OptionRow{
        .name = "node-rank",
        .aliases = "rank",
        .environment = "PET_NODE_RANK",
        .type = ValueType::count,
        .group = OptionGroup::rendezvous,
        .placeholder = "N",
        .help = "Rank of this node; version 0.1 runs on a single machine",
        .default_value = "0",
    },
    OptionRow{
        .name = "local-addr",
        .aliases = "host",
        .environment = "PET_LOCAL_ADDR",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "HOST",
        .help = "Address of this machine, in place of a --master-addr",
    },
    OptionRow{
        .name = "ips",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "HOST",
        .help = "Paddle's list of nodes: only this machine",
        .no_effect = "a job on one machine needs no addresses",
    },
    OptionRow{
        .name = "run-mode",
        .type = ValueType::choice,
        .choices = "collective",
        .group = OptionGroup::rendezvous,
        .help = "Paddle's kind of job; parameter servers are not supported",
    },
};

}  // namespace ddprun::launcher
