#include "rendezvous/etcd/etcd_records.hpp"

#include <algorithm>
#include <string_view>

#include "rendezvous/service/journal_format.hpp"

namespace ddprun::rdzv {

/// Changes, divided into groups.
class EtcdRecords::Groups {
 public:
  void add(EtcdChange change, std::size_t bytes) {
    if (groups_.empty() || is_closed_ || groups_.back().size() >= kChangesMax ||
        bytes_ + bytes > kGroupBytesMax) {
      groups_.emplace_back();
      bytes_ = 0;
      is_closed_ = false;
    }
    groups_.back().push_back(std::move(change));
    bytes_ += bytes;
  }
  void put(std::string key, std::string_view value) {
    const std::size_t bytes = key.size() + value.size();
    add(EtcdPut{std::move(key), std::string(value)}, bytes);
  }
  void remove(const std::string& folder) {
    add(EtcdDelete{folder, EtcdKeys::end_of(folder)}, 2 * folder.size());
  }
  /// No transaction changes a key twice: what comes next may be below a folder that was removed.
  void close() { is_closed_ = true; }

  std::deque<std::vector<EtcdChange>> take() { return std::move(groups_); }

 private:
  std::deque<std::vector<EtcdChange>> groups_;
  std::size_t bytes_ = 0;
  bool is_closed_ = false;
};

void EtcdRecords::found(const std::string& run_id, std::uint64_t generation, std::uint64_t next) {
  jobs_[run_id] = Job{generation, next, false, false, {}};
}

void EtcdRecords::found_torn(const std::string& run_id, std::uint64_t generation,
                             std::string good_bytes) {
  Job& job = jobs_[run_id];
  job = Job{generation, 0, true, false, std::move(good_bytes)};
  touched_[run_id] = &job;
}

EtcdRecords::Job& EtcdRecords::touch(const std::string& run_id) {
  const auto [found, is_new] = jobs_.try_emplace(run_id);
  Job& job = found->second;
  if (is_new && !damaged_.empty()) job.is_forgotten = damaged_.erase(escaped_run_id(run_id)) > 0;
  touched_[run_id] = &job;
  return job;
}

void EtcdRecords::append(const JobRecord& record) {
  Job& job = touch(record.run_id);
  if (job.is_fresh && job.bytes.empty()) job.bytes = journal_head(record.run_id);
  append_journal_frame(job.bytes, record);
}

void EtcdRecords::replace(const JobSnapshot& snapshot) {
  Job& job = touch(snapshot.run_id);
  job.is_fresh = true;
  job.bytes = journal_of(snapshot);
}

void EtcdRecords::forget(const std::string& run_id) {
  const auto found = jobs_.find(run_id);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  const bool is_written = job.generation != 0 || job.is_forgotten;
  job = Job{};
  job.is_forgotten = is_written;
  touched_[run_id] = &job;
}

std::deque<std::vector<EtcdChange>> EtcdRecords::take_groups() {
  Groups groups;
  for (const EtcdDelete& one : std::exchange(leftovers_, {}))
    groups.add(one, one.key.size() + one.end.size());
  if (!touched_.empty()) groups.close();
  for (auto& [run_id, job] : std::exchange(touched_, {})) {
    write(run_id, *job, groups);
    if (job->generation == 0) jobs_.erase(run_id);
  }
  return groups.take();
}

void EtcdRecords::write(const std::string& run_id, Job& job, Groups& groups) const {
  if (std::exchange(job.is_forgotten, false)) {
    groups.remove(keys_.job(run_id));
    groups.close();
  }
  if (job.bytes.empty()) return;
  const std::uint64_t before = job.generation;
  const bool is_fresh = std::exchange(job.is_fresh, false);
  if (is_fresh) {
    ++job.generation;
    job.next = 0;
  }
  const std::string bytes = std::exchange(job.bytes, {});
  for (std::string_view rest = bytes; !rest.empty();) {
    std::string key = keys_.part(run_id, job.generation, job.next++);
    const std::string_view part = rest.substr(0, kGroupBytesMax - key.size());
    groups.put(std::move(key), part);
    rest.remove_prefix(part.size());
  }
  if (!is_fresh) return;
  groups.put(keys_.head(run_id), etcd_head_value(job.generation));
  if (before != 0) groups.remove(keys_.generation(run_id, before));
}

}  // namespace ddprun::rdzv
