#include "rendezvous/etcd/etcd_past.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "rendezvous/etcd/leadership.hpp"
#include "rendezvous/service/journal_format.hpp"

namespace ddprun::rdzv {
namespace {

struct FoundJob {
  std::uint64_t head = 0;
  bool is_head_damaged = false;
  std::map<std::uint64_t, std::vector<std::pair<std::uint64_t, std::string>>> generations;
};

class Reader {
 public:
  Reader(const EtcdKeys& keys, EtcdRecords& records) : keys_(keys), records_(records) {}

  EtcdPast take(std::vector<EtcdKeyValue> found, Clock::time_point boot_time) {
    for (EtcdKeyValue& one : found) sort_in(std::move(one));
    result_.past.is_complete = clock_.has_value();
    for (auto& [id, job] : jobs_) read_job(id, job);
    // By another machine's clock it is not known how long no rdzvd led: then not at all, so that
    // all that is waited for lasts longer rather than shorter.
    std::optional<Clock::duration> shift;
    if (clock_) shift = *clock_ - boot_time;
    for (const JobRecord& record : result_.past.records)
      shift = std::max(shift.value_or(record.at - boot_time), record.at - boot_time);
    result_.past.clock_shift = shift.value_or(Clock::duration{0});
    return std::move(result_);
  }

 private:
  void sort_in(EtcdKeyValue one) {
    if (one.key == keys_.clock()) {
      clock_ = etcd_clock_in(one.value);
      result_.clock_revision = one.mod_revision;
      return;
    }
    if (one.key == keys_.turn()) {
      result_.turn_revision = one.mod_revision;
      return;
    }
    const auto key = keys_.job_key(one.key);
    if (!key) return;
    FoundJob& job = jobs_[std::string(key->job)];
    if (key->is_head) {
      const auto head = generation_in(one.value);
      job.head = head.value_or(0);
      job.is_head_damaged = !head;
    } else {
      job.generations[key->generation].emplace_back(key->sequence, std::move(one.value));
    }
  }

  [[nodiscard]] std::string folder_of(const std::string& id, std::uint64_t generation) const {
    return fmt::format("{}jobs/{}/{}/", keys_.all(), id, etcd_head_value(generation));
  }

  void read_job(const std::string& id, FoundJob& job) {
    if (job.is_head_damaged) return tell_of_damage(id, "its head is none of a journal");
    for (const auto& [generation, parts] : job.generations) {
      if (generation == job.head) continue;
      const std::string folder = folder_of(id, generation);  // was being written, or deleted
      records_.remove({folder, EtcdKeys::end_of(folder)});
    }
    if (job.head == 0) return;
    std::string bytes;
    std::uint64_t next = 0;
    bool has_gap = false;
    for (auto& [sequence, part] : job.generations[job.head]) {
      has_gap = has_gap || sequence != next;
      ++next;
      bytes += part;
    }
    JournalContent content = read_journal(bytes);
    if (has_gap || content.run_id.empty() || escaped_run_id(content.run_id) != id ||
        content.state == JournalContent::State::damaged) {
      return tell_of_damage(id, has_gap                 ? "a part of it is missing"
                                : content.fault.empty() ? "it is that of another job"
                                                        : content.fault);
    }
    // A record larger than a part of which the end was never written; nobody was told of it.
    if (content.state == JournalContent::State::torn) {
      bytes.resize(content.good_bytes);
      records_.found_torn(content.run_id, job.head, std::move(bytes));
    } else {
      records_.found(content.run_id, job.head, next);
    }
    for (JobRecord& record : content.records) result_.past.records.push_back(std::move(record));
  }

  /// It stays as it is: the rdzvd of another version may have written it.
  void tell_of_damage(const std::string& id, const std::string& fault) {
    records_.found_damaged(id);
    result_.past.is_complete = false;
    result_.past.warnings.push_back(
        fmt::format("{}jobs/{}/ in etcd cannot be used: {}; the agents of this job join again, and "
                    "the job restarts once (remove it with: etcdctl del --prefix {}jobs/{}/)",
                    keys_.all(), id, fault, keys_.all(), id));
  }

  const EtcdKeys& keys_;
  EtcdRecords& records_;
  std::map<std::string, FoundJob> jobs_;
  std::optional<Clock::time_point> clock_;
  EtcdPast result_;
};

}  // namespace

EtcdPast read_etcd_past(const EtcdKeys& keys, std::vector<EtcdKeyValue> found,
                        Clock::time_point boot_time, EtcdRecords& records) {
  return Reader(keys, records).take(std::move(found), boot_time);
}

}  // namespace ddprun::rdzv
