// What the leaders of the time before have left in etcd: from keys to records. Pure.
#pragma once

#include <optional>
#include <vector>

#include "rendezvous/etcd/etcd_records.hpp"
#include "rendezvous/service/journal.hpp"

namespace ddprun::rdzv {

struct EtcdPast {
  JournalPast past;
  EtcdRevision clock_revision = 0;  ///< of the clock's key; 0: there is none
  EtcdRevision turn_revision = 0;   ///< of the turn's key; 0: there is none
};

/// `found`: all keys of the prefix as of one revision, in their order. `records` gets what goes on.
/// `boot_time`: now, by base/boot_clock.hpp.
EtcdPast read_etcd_past(const EtcdKeys& keys, std::vector<EtcdKeyValue> found,
                        Clock::time_point boot_time, EtcdRecords& records);

}  // namespace ddprun::rdzv
