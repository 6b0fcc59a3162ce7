// The bytes of a job's journal: what is written is read again, and of anything else a beginning.
#include "rendezvous/service/journal_format.hpp"

#include "tests/unit/rendezvous/service/service_script.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
using rdzv::JobRecord;
using State = rdzv::JournalContent::State;

namespace {

const std::string kOddId = std::string("a/../b\0c\xff d%", 12);

proto::JobSettings two_nodes() {
  proto::JobSettings job;
  job.min_nodes = job.max_nodes = 2;
  return job;
}

/// One of each kind of event, and one of each message of an agent.
std::vector<JobRecord> all_kinds() {
  const rdzv::Clock::time_point at{90min + 7ns};
  proto::Finished finished;
  finished.outcome = proto::Finished::Outcome::cancelled;
  finished.reason = "stopped by SIGTERM";
  std::vector<rdzv::JobEvent> events = {
      rdzv::JobBegan{at + 17s},
      rdzv::SessionBegan{"a/2", "10.0.0.1", 15s, 2min},
      rdzv::Said{"a/2", ServiceScript::join_of("a", two_nodes())},
      rdzv::Said{"a/2", proto::Started{3}},
      rdzv::Said{"a/2", proto::WorkerFailed{3, 1, 4711, {true, 9, true}, 3s, -1s, "", "silent"}},
      rdzv::Said{"a/2", proto::WorkersDone{4}},
      rdzv::Said{"a/2", proto::Stopped{4, {proto::WorkerFailure{}}, 7}},
      rdzv::Said{"a/2", proto::Leave{15, "no \"room\"\n", true}},
      rdzv::SessionLost{"b"},
      rdzv::SessionOver{"c"},
      rdzv::PastHeard{at + 1s},
      rdzv::MemoryLost{at + 2s},
      rdzv::DeadlinePassed{},
      rdzv::JobOver{4, finished, at - 1s, at},
  };
  std::vector<JobRecord> records;
  for (std::size_t i = 0; i < events.size(); ++i)
    records.push_back({kOddId, at + i * 1ms, std::move(events[i])});
  return records;
}

const rdzv::Clock::time_point kAt{90min + 7ns};

rdzv::JobSnapshot snapshot_of_a_job() {
  proto::Finished finished;
  finished.outcome = proto::Finished::Outcome::cancelled;
  finished.reason = "stopped by SIGTERM";
  rdzv::JobRestored job{kAt - 1min, true, {}};
  job.membership.settings = two_nodes();
  job.membership.round.number = 7;
  job.membership.restarts = {2, {kAt, kAt + 1s}, 1, 2, 300, 1};
  job.membership.past = proto::PastRound{1, 2, 3};
  rdzv::NodeSnapshot node;
  node.node = {"node a", "worker", 2, 1, true, true, 1000, "10.0.0.1", 64};
  node.order = 9;
  node.seat = {1, 4, 2, 6};
  node.failed_rounds = 2;
  node.stepped_back = 5;
  rdzv::JobSnapshot snapshot{kOddId, {}};
  for (const rdzv::JobEvent& event :
       {rdzv::JobEvent(rdzv::JobOver{1, finished, kAt - 1h, kAt}), rdzv::JobEvent(job),
        rdzv::JobEvent(
            rdzv::SessionRestored{"a", 12, "10.0.0.1", 15s, "node a", "boot", finished, node}),
        rdzv::JobEvent(rdzv::SessionRestored{"b", 1, "10.0.0.2", 15s, "", "", {}, {}}),
        rdzv::JobEvent(rdzv::LossesRestored{"a", {7, {"node a: pid 1"}}})})
    snapshot.records.push_back({kOddId, kAt, event});
  return snapshot;
}

std::string frame_of(const JobRecord& record) {
  std::string bytes;
  rdzv::append_journal_frame(bytes, record);
  return bytes;
}

struct Written {
  std::string bytes;
  std::vector<std::string> frames;
  std::vector<std::size_t> ends;  // of the first line, and of each frame
};

Written written(const std::vector<JobRecord>& records, const std::string& run_id = kOddId) {
  Written all{rdzv::journal_head(run_id), {}, {}};
  all.ends.push_back(all.bytes.size());
  for (const JobRecord& record : records) {
    all.frames.push_back(frame_of(record));
    all.bytes += all.frames.back();
    all.ends.push_back(all.bytes.size());
  }
  return all;
}

bool is_beginning(const rdzv::JournalContent& content, const Written& all) {
  if (content.records.size() > all.frames.size()) return false;
  for (std::size_t i = 0; i < content.records.size(); ++i)
    if (frame_of(content.records[i]) != all.frames[i]) return false;
  return content.run_id.empty() ? content.records.empty() && content.good_bytes == 0
                                : content.good_bytes == all.ends[content.records.size()];
}

}  // namespace

TEST_CASE("a journal's records are read as they were written") {
  const std::vector<JobRecord> records = all_kinds();
  const Written all = written(records);
  const rdzv::JournalContent content = rdzv::read_journal(all.bytes);
  CAPTURE(content.fault);
  REQUIRE(content.state == State::whole);
  CHECK(content.run_id == kOddId);
  REQUIRE(content.records.size() == records.size());
  CHECK(content.good_bytes == all.bytes.size());
  CHECK(is_beginning(content, all));
  for (std::size_t i = 0; i < records.size(); ++i) {
    CHECK(content.records[i].run_id == kOddId);
    CHECK(content.records[i].at == records[i].at);
    CHECK(content.records[i].event.index() == records[i].event.index());
  }
  CHECK(std::get<rdzv::SessionBegan>(content.records[1].event).lease == 15s);
  CHECK(std::get<rdzv::JobOver>(content.records.back().event).ended_at ==
        std::get<rdzv::JobOver>(records.back().event).ended_at);
}

TEST_CASE("a journal that is cut anywhere gives the records before the cut") {
  const Written all = written(all_kinds());
  for (std::size_t length = 0; length < all.bytes.size(); ++length) {
    CAPTURE(length);
    const rdzv::JournalContent content = rdzv::read_journal(all.bytes.substr(0, length));
    const bool between = std::find(all.ends.begin(), all.ends.end(), length) != all.ends.end();
    REQUIRE(content.state == (between ? State::whole : State::torn));
    REQUIRE(is_beginning(content, all));
    const auto whole = std::upper_bound(all.ends.begin(), all.ends.end(), length);
    REQUIRE(static_cast<std::ptrdiff_t>(content.records.size()) ==
            std::max<std::ptrdiff_t>(whole - all.ends.begin() - 1, 0));
  }
}

TEST_CASE("a bit that is wrong damages a journal, or its last record only") {
  const Written all = written(all_kinds());
  const std::size_t last = all.ends[all.ends.size() - 2];
  for (std::size_t bit = 0; bit < 8 * all.bytes.size(); ++bit) {
    std::string bytes = all.bytes;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    const rdzv::JournalContent content = rdzv::read_journal(bytes);
    CAPTURE(bit, content.fault);
    REQUIRE(content.state == (bit / 8 >= last ? State::torn : State::damaged));
    REQUIRE(is_beginning(content, all));
  }
}

TEST_CASE("a snapshot is read as it was written") {
  const rdzv::JobSnapshot snapshot = snapshot_of_a_job();
  const rdzv::JournalContent content = rdzv::read_journal(rdzv::journal_of(snapshot));
  CAPTURE(content.fault);
  REQUIRE(content.state == State::whole);
  REQUIRE(content.records.size() == snapshot.records.size());
  CHECK(content.snapshot_records == snapshot.records.size());
  CHECK(rdzv::journal_of({content.run_id, content.records}) == rdzv::journal_of(snapshot));
  const auto& job = std::get<rdzv::JobRestored>(content.records[1].event);
  CHECK(job.membership.round.number == 7);
  CHECK(job.membership.restarts.restarts == std::vector{kAt, kAt + 1s});
  const auto& session = std::get<rdzv::SessionRestored>(content.records[2].event);
  REQUIRE(session.node);
  REQUIRE(session.node->seat);
  CHECK(session.node->seat->first_rank == 4);
  CHECK(session.node->node.requested_group_rank == 1);
  CHECK(session.outcome->reason == "stopped by SIGTERM");
}

TEST_CASE("the records of a snapshot count together or not at all") {
  const rdzv::JobSnapshot snapshot = snapshot_of_a_job();
  const std::string whole = rdzv::journal_of(snapshot);
  for (std::size_t length = whole.find('\n') + 1; length < whole.size(); ++length) {
    const rdzv::JournalContent cut = rdzv::read_journal(whole.substr(0, length));
    CAPTURE(length, cut.fault);
    REQUIRE(cut.state == State::damaged);
    REQUIRE(cut.records.empty());
  }
  // What comes after it may be cut, as ever.
  const std::string more = whole + frame_of({kOddId, kAt, rdzv::DeadlinePassed{}});
  CHECK(rdzv::read_journal(more).records.size() == snapshot.records.size() + 1);
  const rdzv::JournalContent cut = rdzv::read_journal(more.substr(0, more.size() - 1));
  CHECK(cut.state == State::torn);
  CHECK(cut.records.size() == snapshot.records.size());
  // Its records are in no other place, and no others are in theirs.
  CHECK(rdzv::read_journal(more + frame_of(snapshot.records[2])).state == State::damaged);
  rdzv::JobSnapshot other = snapshot;
  other.records.push_back({kOddId, kAt, rdzv::DeadlinePassed{}});
  CHECK(rdzv::read_journal(rdzv::journal_of(other)).state == State::damaged);
}

TEST_CASE("what is no journal of this format is refused") {
  const auto state_of = [](const std::string& bytes) { return rdzv::read_journal(bytes).state; };
  CHECK(state_of("") == State::torn);
  CHECK(state_of("\n") == State::damaged);
  CHECK(state_of(std::string(100'000, '\0')) == State::damaged);
  CHECK(state_of(std::string(100'000, 'x')) == State::damaged);
  // A longest length, a length of nothing, and zeros, as a file system may leave them.
  const std::string head = rdzv::journal_head("job");
  CHECK(state_of(head) == State::whole);
  CHECK(state_of(head + std::string(8, '\xff')) == State::torn);
  CHECK(state_of(head + std::string(4096, '\0')) == State::torn);
}

TEST_CASE("a run id becomes a name of a file") {
  CHECK(rdzv::escaped_run_id("job-1_a.b") == "job-1_a.b");
  CHECK(rdzv::escaped_run_id("..") == "%2E.");
  CHECK(rdzv::escaped_run_id(kOddId) == "a%2F..%2Fb%00c%FF%20d%25");
}
