// A journal in an etcd in memory: what is written, what lost answers and old leaders cannot do.
#include "rendezvous/etcd/journal_etcd.hpp"

#include <catch2/catch.hpp>

#include "rendezvous/etcd/leadership.hpp"
#include "tests/unit/rendezvous/etcd/model_etcd.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
using namespace ddprun::rdzv;
using Catch::Matchers::Contains;
using Fate = ModelEtcd::Fate;
using Names = std::vector<std::string>;

namespace {

struct Tenure : EtcdTenure {
  bool over = false;
  bool answers = true;
  std::string reason;
  [[nodiscard]] bool may_answer() const override { return answers && !over; }
  [[nodiscard]] bool is_over() const override { return over; }
  void lose(const std::string& why) override {
    over = true;
    reason = why;
  }
};

/// A leader: the key, and its journal.
struct Leader {
  std::shared_ptr<ModelEtcd> etcd;
  std::shared_ptr<Tenure> tenure = std::make_shared<Tenure>();
  std::shared_ptr<EtcdJournal> journal;
  int pauses = 0;

  explicit Leader(std::shared_ptr<ModelEtcd> model, Clock::time_point now = Clock::time_point(5h))
      : etcd(std::move(model)) {
    etcd->remove("p/leader");
    etcd->put("p/leader", "x:1");
    EtcdJournal::Settings settings;
    settings.prefix = "p";
    settings.leader_revision = etcd->revision();
    settings.boot_time = now;
    settings.pause = [this] {
      if (++pauses > 20) tenure->over = true;
    };
    journal = EtcdJournal::open(std::make_unique<ModelClient>(etcd), settings, tenure);
  }
};

JobRecord began(const std::string& run_id, const std::string& agent,
                Clock::time_point at = Clock::time_point(5h)) {
  return {run_id, at, SessionBegan{agent, "10.0.0.1", 15s, 0s}};
}

Names agents_in(Leader& leader, const std::string& run_id = "job") {
  REQUIRE(leader.journal != nullptr);
  Names names;
  for (const JobRecord& record : leader.journal->take_past().records)
    if (record.run_id == run_id) names.push_back(std::get<SessionBegan>(record.event).agent);
  return names;
}

JobSnapshot big_snapshot(std::size_t records) {
  JobSnapshot snapshot{"job", {{"job", Clock::time_point(5h), JobRestored{}}}};
  for (std::size_t i = 0; i < records; ++i) {
    SessionRestored session;
    session.agent = "agent" + std::to_string(i) + std::string(200, 'x');
    snapshot.records.push_back({"job", Clock::time_point(5h), session});
  }
  return snapshot;
}

}  // namespace

TEST_CASE("a group commit is one transaction with one key for each job") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Leader leader(etcd);
  leader.journal->take_past();
  for (const char* job : {"job", "other"}) leader.journal->append(began(job, "a"));
  CHECK(leader.journal->commit().empty());
  const int before = etcd->txns;
  for (int i = 0; i < 10; ++i) {
    leader.journal->append(began("job", "b"));
    leader.journal->append(began("other", "b"));
  }
  CHECK(leader.journal->commit().empty());
  CHECK(etcd->txns == before + 1);
  CHECK(etcd->keys() == Names{"p/jobs/job/0000000000000001/0000000000000000",
                              "p/jobs/job/0000000000000001/0000000000000001", "p/jobs/job/head",
                              "p/jobs/other/0000000000000001/0000000000000000",
                              "p/jobs/other/0000000000000001/0000000000000001", "p/jobs/other/head",
                              "p/leader", "p/turn"});
  CHECK(leader.journal->commit().empty());
  CHECK(etcd->txns == before + 1);  // nothing to write, nothing to ask
}

TEST_CASE("a write with a lost answer is neither refused nor written twice") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Names expected;
  {
    Leader leader(etcd);
    int requests = 0;
    etcd->fate = [&] {
      ++requests;
      return requests % 3 == 1   ? Fate::answer_lost
             : requests % 3 == 2 ? Fate::lost
                                 : Fate::answered;
    };
    for (int i = 0; i < 6; ++i) {
      expected.push_back("agent" + std::to_string(i));
      leader.journal->append(began("job", expected.back()));
      leader.pauses = 0;
      const auto lines = leader.journal->commit();
      CHECK(lines.size() <= 1);
      CHECK(leader.journal->is_durable());
    }
    etcd->fate = nullptr;
  }
  Leader next(etcd);
  CHECK(agents_in(next) == expected);
}

TEST_CASE("a copy of a write that arrives late changes nothing, not even a forgotten job") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Leader leader(etcd);
  leader.journal->append(began("job", "a"));
  leader.journal->commit();
  leader.journal->append(began("job", "b"));
  leader.journal->commit();
  leader.journal->forget("job");
  leader.journal->commit();
  const auto keys = etcd->keys();
  const auto sent = etcd->sent;
  for (const EtcdTxn& txn : sent)
    if (!txn.compares.empty()) CHECK_FALSE(etcd->txn(txn).succeeded);
  CHECK(etcd->keys() == keys);
  CHECK(keys == Names{"p/leader", "p/turn"});
}

TEST_CASE("an old leader writes nothing, and may not answer") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Leader old(etcd);
  old.journal->append(began("job", "a"));
  old.journal->commit();
  Leader young(etcd);
  CHECK(agents_in(young) == Names{"a"});
  const auto keys = etcd->keys();
  old.journal->append(began("job", "b"));
  CHECK(old.journal->may_answer());  // by its own clock
  old.journal->commit();
  CHECK_FALSE(old.journal->is_durable());
  CHECK_FALSE(old.journal->may_answer());
  CHECK_THAT(old.tenure->reason, Contains("another one has taken its place"));
  old.journal->forget("job");
  old.journal->commit();
  CHECK(etcd->keys() == keys);
  young.journal->append(began("job", "c"));
  young.journal->commit();
  Leader third(etcd);
  CHECK(agents_in(third) == Names{"a", "c"});
}

TEST_CASE(
    "while etcd does not answer a commit waits, and nothing may be answered when it gives up") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Leader leader(etcd);
  leader.journal->append(began("job", "a"));
  etcd->fate = [] { return Fate::lost; };
  const auto lines = leader.journal->commit();
  CHECK(leader.pauses == 21);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Contains("no answer"));
  CHECK_FALSE(leader.journal->is_durable());
  CHECK_FALSE(leader.journal->may_answer());
}

TEST_CASE("a leader that finds another one in its place reads nothing") {
  const auto etcd = std::make_shared<ModelEtcd>();
  etcd->put("p/leader", "x:1");
  EtcdJournal::Settings settings;
  settings.prefix = "p";
  settings.leader_revision = etcd->revision();
  settings.pause = [] {};
  etcd->remove("p/leader");
  etcd->put("p/leader", "y:1");
  const auto tenure = std::make_shared<Tenure>();
  CHECK(EtcdJournal::open(std::make_unique<ModelClient>(etcd), settings, tenure) == nullptr);
  CHECK_THAT(tenure->reason, Contains("another one has taken its place"));
}

TEST_CASE("a large snapshot is written in parts and counts from its last one") {
  const auto etcd = std::make_shared<ModelEtcd>();
  {
    Leader leader(etcd);
    leader.journal->append(began("job", "a"));
    leader.journal->append(began("other", "o"));
    leader.journal->commit();
  }
  const std::size_t records = 12'000;
  const int cut = GENERATE(0, 1, 2, 99);
  {
    Leader leader(etcd);
    int writes = 0;
    etcd->fate = [&] { return writes++ >= cut ? Fate::lost : Fate::answered; };
    leader.journal->replace(big_snapshot(records));
    leader.journal->append(began("job", "b"));
    leader.journal->commit();
    for (const EtcdTxn& txn : etcd->sent) {
      std::size_t bytes = 0;
      for (const auto& change : txn.changes)
        if (const auto* put = std::get_if<EtcdPut>(&change)) bytes += put->value.size();
      CHECK(bytes < 1'400'000);
      CHECK(txn.changes.size() <= 128);
    }
    etcd->fate = nullptr;
  }
  etcd->page_keys_max = 2;
  Leader next(etcd);
  REQUIRE(next.journal != nullptr);
  const JournalPast past = next.journal->take_past();
  CHECK(past.warnings.empty());
  const bool is_new = cut == 99;
  CHECK(past.records.size() == (is_new ? records + 3 : 2));
  next.journal->append(began("job", "c"));
  CHECK(next.journal->commit().empty());
  for (const std::string& key : etcd->keys())  // what was half written, or replaced, is gone
    CHECK(key.find(is_new ? "job/0000000000000001" : "job/0000000000000002") == std::string::npos);
}

TEST_CASE("a record that is cut is dropped, and the journal goes on without it") {
  const auto etcd = std::make_shared<ModelEtcd>();
  {
    Leader leader(etcd);
    leader.journal->append(began("job", "a"));
    leader.journal->append(began("job", "b"));
    leader.journal->commit();
  }
  const std::string part = "p/jobs/job/0000000000000001/0000000000000000";
  const std::string whole = etcd->value(part);
  etcd->put(part, whole.substr(0, whole.size() - 3));
  {
    Leader leader(etcd);
    CHECK(agents_in(leader) == Names{"a"});
    leader.journal->append(began("job", "c"));
    leader.journal->commit();
  }
  Leader last(etcd);
  CHECK(agents_in(last) == Names{"a", "c"});
}

TEST_CASE("a damaged job is left alone until it begins anew, and no other is touched") {
  const auto etcd = std::make_shared<ModelEtcd>();
  {
    Leader leader(etcd);
    leader.journal->append(began("job", "a"));
    leader.journal->append(began("other", "o"));
    leader.journal->commit();
    leader.journal->append(began("job", "b"));
    leader.journal->commit();
    etcd->put("p/clock", etcd_clock_value(Clock::time_point(5h), 1));
  }
  const std::string first = "p/jobs/job/0000000000000001/0000000000000000";
  SECTION("a part is missing") { etcd->remove(first); }
  SECTION("a part has other bytes") { etcd->put(first, "ddprun journal 1 x y\n"); }
  SECTION("the head is wrong") { etcd->put("p/jobs/job/head", "1"); }
  const auto keys = etcd->keys();
  Leader leader(etcd);
  const JournalPast past = leader.journal->take_past();
  REQUIRE(past.records.size() == 1);
  CHECK(past.records[0].run_id == "other");
  CHECK_FALSE(past.is_complete);
  REQUIRE(past.warnings.size() == 1);
  CHECK_THAT(past.warnings[0], Contains("etcdctl del --prefix p/jobs/job/"));
  leader.journal->append(began("other", "o2"));
  leader.journal->commit();
  for (const std::string& key : keys) CHECK_FALSE(etcd->value(key).empty());
  leader.journal->append(began("job", "n"));
  leader.journal->commit();
  Leader next(etcd);
  const JournalPast again = next.journal->take_past();
  CHECK(again.warnings.empty());
  CHECK(again.is_complete);
  CHECK(again.records.size() == 3);
}

TEST_CASE("the clock of the next leader goes on, whatever its own machine shows") {
  const auto etcd = std::make_shared<ModelEtcd>();
  {
    Leader leader(etcd);
    const JournalPast past = leader.journal->take_past();
    CHECK_FALSE(past.is_complete);  // nothing is known of the time before
    CHECK(past.clock_shift == 0s);
    leader.journal->append(began("job", "a", Clock::time_point(90h)));
    leader.journal->commit();
  }
  etcd->put("p/clock", etcd_clock_value(Clock::time_point(100h), 1));
  Leader early(etcd, Clock::time_point(1h));
  CHECK(early.journal->clock_shift() == 99h);
  CHECK(early.journal->clock_revision() == etcd->range({"p/clock", "", 1, 0}).keys[0].mod_revision);
  CHECK(early.journal->take_past().is_complete);
  Leader late(etcd, Clock::time_point(1000h));
  CHECK(late.journal->clock_shift() == -900h);
}

TEST_CASE("keys of other prefixes stay as they are") {
  const auto etcd = std::make_shared<ModelEtcd>();
  for (const char* key : {"p", "p.x", "p0", "pp/jobs/job/head", "a", "p/other"})
    etcd->put(key, "theirs");
  Leader leader(etcd);
  leader.journal->append(began("job", "a"));
  leader.journal->commit();
  leader.journal->forget("job");
  leader.journal->commit();
  for (const char* key : {"p", "p.x", "p0", "pp/jobs/job/head", "a", "p/other"})
    CHECK(etcd->value(key) == "theirs");
}

TEST_CASE("the journals of runs below the same prefix are not read") {
  const auto etcd = std::make_shared<ModelEtcd>();
  for (const char* key : {"p/runs/a/clock", "p/runs/a/jobs/a/head", "p/candidates/1"})
    etcd->put(key, "theirs");
  {
    Leader leader(etcd);
    leader.journal->append(began("job", "a"));
    leader.journal->commit();
  }
  etcd->read.clear();
  const Leader leader(etcd);
  CHECK(etcd->read.contains("p/jobs/job/head"));
  CHECK(etcd->read.contains("p/leader"));
  for (const char* key : {"p/runs/a/clock", "p/runs/a/jobs/a/head", "p/candidates/1"})
    CHECK_FALSE(etcd->read.contains(key));
}

TEST_CASE("a history that is compacted while it is read is read again") {
  const auto etcd = std::make_shared<ModelEtcd>();
  {
    Leader leader(etcd);
    for (int i = 0; i < 9; ++i) {
      leader.journal->append(began("job", "a" + std::to_string(i)));
      leader.journal->commit();
    }
  }
  etcd->page_keys_max = 2;
  int requests = 0;
  etcd->fate = [&] {
    if (++requests == 3) etcd->compacted = etcd->revision() + 1;
    if (requests == 5) etcd->compacted = 0;
    return requests == 4 ? Fate::lost : Fate::answered;
  };
  Leader next(etcd);
  CHECK(agents_in(next).size() == 9);
}
