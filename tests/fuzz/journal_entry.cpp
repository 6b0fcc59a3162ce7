// What rdzvd reads at its start: the journal of a job, and what follows from its records.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/crc.hpp>

#include "base/assert.hpp"
#include "rendezvous/service/journal_format.hpp"
#include "rendezvous/service/service_core.hpp"
#include "tests/fuzz/entries.hpp"

namespace ddprun::test {
namespace {

using rdzv::Clock;
using rdzv::Job;
using rdzv::JobRecord;
using rdzv::JournalContent;
using rdzv::ServiceCore;

std::string written(const JournalContent& content) {
  std::string bytes = rdzv::journal_head(content.run_id, content.snapshot_records);
  for (const JobRecord& record : content.records) rdzv::append_journal_frame(bytes, record);
  return bytes;
}

void check_content(std::string_view bytes, const JournalContent& content) {
  const bool is_whole = content.state == JournalContent::State::whole;
  DDPRUN_ASSERT(content.good_bytes <= bytes.size(), "nothing is read beyond the end");
  DDPRUN_ASSERT(is_whole == content.fault.empty(), "what is not whole has a fault");
  DDPRUN_ASSERT(is_whole == (content.good_bytes == bytes.size() && !content.run_id.empty()),
                "a whole journal was read to its end");
  DDPRUN_ASSERT(!content.run_id.empty() || content.records.empty(), "records are of a job");
  if (content.run_id.empty()) return;
  const JournalContent good = rdzv::read_journal(bytes.substr(0, content.good_bytes));
  DDPRUN_ASSERT(good.state == JournalContent::State::whole && written(good) == written(content),
                "the records before a fault do not depend on it");
  const std::string text = written(content);
  const JournalContent again = rdzv::read_journal(text);
  DDPRUN_ASSERT(again.state == JournalContent::State::whole && again.run_id == content.run_id,
                "what is written can be read");
  DDPRUN_ASSERT(again.records.size() == content.records.size() && written(again) == text,
                "what is read again is the same");
}

/// A service that starts with these records, and the agents that come back to it.
class Replay {
 public:
  explicit Replay(const JournalContent& content)
      : run_id_(content.run_id), records_(content.records) {
    for (const JobRecord& record : records_) now_ = std::max(now_, record.at);
    end_ = now_ + std::chrono::hours(24 * 365);
  }

  void run() {
    ServiceCore core = read_back(true);
    keep(core.begin(now_));
    std::vector<std::pair<proto::AgentId, std::uint64_t>> agents;
    if (const Job* job = core.job(run_id_)) {
      for (const auto& [id, session] : job->sessions())
        agents.emplace_back(id, session.acknowledged);
    }
    // One of them stays away.
    for (std::size_t i = 1; i < agents.size(); ++i) come_back(core, i, agents[i].first);
    come_back(core, agents.size() + 1, "new");
    hear(core, rdzv::ConnectionOpened{0, run_id_, "10.0.0.2"});
    hear(core, rdzv::ClientSaid{0, proto::StatusRequest{}});
    for (int i = 0; i < kDeadlines && core.deadline() && *core.deadline() < end_; ++i) {
      now_ = std::max(now_, *core.deadline());
      hear(core, rdzv::DeadlinePassed{});
    }
    for (std::size_t i = 1; i < agents.size(); ++i)
      say(core, i, proto::Numbered{agents[i].second + 1, proto::Leave{15, "", true}});
    // Not begun: what a service adds when it begins (how long it waits for a past) has its own
    // time.
    check_same(core.job(run_id_), read_back(false).job(run_id_));
  }

 private:
  static constexpr int kDeadlines = 20;

  [[nodiscard]] ServiceCore read_back(bool takes_snapshots) const {
    rdzv::ServiceSettings settings;
    if (takes_snapshots) settings.snapshots = {0, 0};
    ServiceCore core(settings, now_);
    for (const JobRecord& record : records_) core.replay(record);
    return core;
  }
  void come_back(ServiceCore& core, rdzv::ConnectionId connection, const proto::AgentId& agent) {
    hear(core, rdzv::ConnectionOpened{connection, run_id_, "10.0.0.1", "path"});
    proto::Resume resume;
    resume.agent = agent;
    resume.path = "path";
    const Job* job = core.job(run_id_);
    if (job != nullptr && job->session(agent) != nullptr) resume.epoch = job->epoch();
    say(core, connection, resume);
  }
  void say(ServiceCore& core, rdzv::ConnectionId connection, proto::ClientMessage message) {
    hear(core, rdzv::ClientSaid{connection, std::move(message)});
  }
  void hear(ServiceCore& core, const rdzv::ServiceEvent& event) { keep(core.on(event, now_)); }
  void keep(rdzv::ServiceActions actions) {
    for (JobRecord& record : actions.records)
      if (record.run_id == run_id_) records_.push_back(std::move(record));
    for (rdzv::JobSnapshot& snapshot : actions.snapshots) {
      if (snapshot.run_id != run_id_) continue;
      const JournalContent content = rdzv::read_journal(rdzv::journal_of(snapshot));
      DDPRUN_ASSERT(content.state == JournalContent::State::whole &&
                        content.records.size() == snapshot.records.size(),
                    "a snapshot that is written is whole");
      records_ = content.records;
    }
    const auto& forget = actions.forget;
    if (std::find(forget.begin(), forget.end(), run_id_) != forget.end()) records_.clear();
  }
  /// What the next process knows is what this one knew.
  void check_same(const Job* before, const Job* after) const {
    if (records_.empty()) return;
    DDPRUN_ASSERT(before != nullptr && after != nullptr, "a job with records is there");
    DDPRUN_ASSERT(before->epoch() == after->epoch(), "it has its epoch");
    DDPRUN_ASSERT(before->is_over() == after->is_over(), "it is over, or not");
    DDPRUN_ASSERT(std::equal(before->sessions().begin(), before->sessions().end(),
                             after->sessions().begin(), after->sessions().end(),
                             [](const auto& a, const auto& b) {
                               return a.first == b.first &&
                                      a.second.acknowledged == b.second.acknowledged;
                             }),
                  "its agents have what was acknowledged to them");
    const rdzv::Membership* left = before->membership();
    const rdzv::Membership* right = after->membership();
    DDPRUN_ASSERT((left == nullptr) == (right == nullptr), "it has nodes, or not");
    if (left == nullptr) return;
    DDPRUN_ASSERT(left->state() == right->state() && left->next_round() == right->next_round() &&
                      left->restart_count() == right->restart_count() &&
                      left->nodes() == right->nodes() && left->deadline() == right->deadline(),
                  "its nodes are where they were");
  }

  const std::string run_id_;
  std::vector<JobRecord> records_;
  Clock::time_point now_{};
  Clock::time_point end_;
};

void check_journal(std::string_view bytes) {
  const JournalContent content = rdzv::read_journal(bytes);
  check_content(bytes, content);
  if (!content.run_id.empty()) Replay(content).run();
}

void append_u32(std::string& out, std::uint32_t number) {
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(number >> shift);
}

void append_frame(std::string& out, std::string_view body) {
  std::string length;
  append_u32(length, static_cast<std::uint32_t>(body.size()));
  boost::crc_32_type crc;
  crc.process_bytes(length.data(), length.size());
  crc.process_bytes(body.data(), body.size());
  out += length;
  append_u32(out, crc.checksum());
  out += body;
}

}  // namespace

void fuzz_journal(const std::uint8_t* data, std::size_t size) {
  check_journal({reinterpret_cast<const char*>(data), size});
}

void fuzz_journal_records(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::string frames;
  std::size_t records = 0;
  std::size_t snapshot_records = 0;  // as many as it takes for those of a snapshot to be in place
  while (!rest.empty()) {
    const std::string_view body = rest.substr(0, rest.find('\n'));
    if (!body.empty()) append_frame(frames, body);
    records += body.empty() ? 0 : 1;
    if (body.find("_restored\":") != std::string_view::npos) snapshot_records = records;
    rest.remove_prefix(std::min(body.size() + 1, rest.size()));
  }
  check_journal(rdzv::journal_head("job", snapshot_records) + frames);
}

}  // namespace ddprun::test
