// What a journal in etcd has to write: the records of all jobs as changes of keys, in groups that
// fit into a transaction each. Pure.
//
// A job's journal begins as a new generation of its keys: all parts first, then the head, which
// makes it count, then the generation before it is deleted. So it counts as a whole or not at all,
// whatever transaction is the last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/etcd/etcd.hpp"
#include "rendezvous/etcd/etcd_keys.hpp"
#include "rendezvous/service/service_core.hpp"

namespace ddprun::rdzv {

class EtcdRecords {
 public:
  /// etcd takes requests of 1.5 MiB and transactions of 128 changes, unless it is told otherwise.
  static constexpr std::size_t kGroupBytesMax = std::size_t{1} << 20;
  static constexpr std::size_t kChangesMax = 100;

  explicit EtcdRecords(EtcdKeys keys) : keys_(std::move(keys)) {}

  /// A job that the past has left: its head, and the next sequence number of that generation.
  void found(const std::string& run_id, std::uint64_t generation, std::uint64_t next);
  /// A job that the past has left with these bytes in its parts, and something behind them that is
  /// no record: the parts are written again without it.
  void found_torn(const std::string& run_id, std::uint64_t generation, std::string good_bytes);
  /// One with this ID that cannot be used. Its keys go when a job of that run id begins.
  void found_damaged(std::string id) { damaged_.insert(std::move(id)); }
  /// Keys that belong to no job's journal.
  void remove(EtcdDelete leftovers) { leftovers_.push_back(std::move(leftovers)); }

  void append(const JobRecord& record);
  void replace(const JobSnapshot& snapshot);
  void forget(const std::string& run_id);

  /// All that is to be written since the last call: groups, to be written in this order.
  std::deque<std::vector<EtcdChange>> take_groups();

 private:
  struct Job {
    std::uint64_t generation = 0;  // that is written; 0: none
    std::uint64_t next = 0;        // sequence number
    bool is_fresh = true;          // `bytes` are a whole journal: a new generation
    bool is_forgotten = false;     // all its keys go, before `bytes`
    std::string bytes;
  };
  class Groups;

  Job& touch(const std::string& run_id);
  void write(const std::string& run_id, Job& job, Groups& groups) const;

  const EtcdKeys keys_;
  std::map<std::string, Job> jobs_;
  std::map<std::string, Job*> touched_;
  std::set<std::string> damaged_;
  std::vector<EtcdDelete> leftovers_;
};

}  // namespace ddprun::rdzv
