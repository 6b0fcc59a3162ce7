// The keys of a journal in etcd, below its prefix. Pure.
//
//   PREFIX/leader              HOST:PORT of the rdzvd that leads; goes with its lease
//   PREFIX/clock               what the service's clock may show at most, in ns
//   PREFIX/turn                the number of the leader's last write of records
//   PREFIX/jobs/ID/head        which generation of the job's journal counts
//   PREFIX/jobs/ID/GEN/SEQ     a part of that journal; GEN and SEQ are numbers of 16 hex digits
//
// ID is the run id as a word (escaped_run_id). The parts of one generation, in their order, are the
// bytes of a journal as a file has them (rendezvous/service/journal_format.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::rdzv {

class EtcdKeys {
 public:
  explicit EtcdKeys(std::string prefix) : prefix_(std::move(prefix)) {}

  [[nodiscard]] std::string leader() const { return prefix_ + "/leader"; }
  [[nodiscard]] std::string clock() const { return prefix_ + "/clock"; }
  [[nodiscard]] std::string turn() const { return prefix_ + "/turn"; }
  [[nodiscard]] std::string job(std::string_view run_id) const;
  [[nodiscard]] std::string head(std::string_view run_id) const { return job(run_id) + "head"; }
  [[nodiscard]] std::string generation(std::string_view run_id, std::uint64_t number) const;
  [[nodiscard]] std::string part(std::string_view run_id, std::uint64_t generation,
                                 std::uint64_t sequence) const;
  /// What the keys of all jobs begin with; their end is end_of() of it.
  [[nodiscard]] std::string jobs() const { return prefix_ + "/jobs/"; }
  /// What all of these keys begin with, and where this is the prefix of rdzvd also the keys of
  /// runs/ (etcd_place_of_run); their end is end_of() of it.
  [[nodiscard]] std::string all() const { return prefix_ + "/"; }

  /// Behind the last key that begins with this text, which ends with '/'.
  static std::string end_of(std::string folder);

  struct JobKey {
    std::string_view job;  ///< ID
    bool is_head = false;
    std::uint64_t generation = 0;  ///< 0: of the head
    std::uint64_t sequence = 0;
  };
  /// None: it is no key of a job.
  [[nodiscard]] std::optional<JobKey> job_key(std::string_view key) const;

 private:
  std::string prefix_;
};

/// The value of a head: the number of a generation, from 1.
std::string etcd_head_value(std::uint64_t generation);
std::optional<std::uint64_t> generation_in(std::string_view head_value);

}  // namespace ddprun::rdzv
