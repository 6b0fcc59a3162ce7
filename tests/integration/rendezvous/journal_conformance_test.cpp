// What the service expects of a journal, whatever it is kept in: a folder, an etcd in memory, a
// real etcd.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>

#include "base/boot_clock.hpp"
#include "rendezvous/etcd/journal_etcd.hpp"
#include "rendezvous/service/journal_file.hpp"
#include "tests/support/real_etcd.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/unit/rendezvous/etcd/model_etcd.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace ddprun::rdzv;
using namespace std::chrono_literals;
using Names = std::vector<std::string>;

namespace {

struct Tenure : EtcdTenure {
  [[nodiscard]] bool may_answer() const override { return !over; }
  [[nodiscard]] bool is_over() const override { return over; }
  void lose(const std::string&) override { over = true; }
  bool over = false;
};

/// A place that outlives its journals.
class Place {
 public:
  Place() = default;
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  virtual ~Place() = default;
  /// The next process, once the last one has ended.
  virtual std::shared_ptr<Journal> open() = 0;
};

class Folder : public Place {
 public:
  std::shared_ptr<Journal> open() override {
    auto opened = FileJournal::open((dir_ / "state").string(), "boot", boot_clock_now());
    REQUIRE(opened.has_value());
    return *opened;
  }

 private:
  TempDir dir_;
};

class EtcdStore : public Place {
 public:
  explicit EtcdStore(std::function<std::unique_ptr<Etcd>()> make) : make_(std::move(make)) {}

  std::shared_ptr<Journal> open() override {
    const EtcdKeys keys("ddprun");
    const auto etcd = make_();
    REQUIRE(etcd->txn({{}, {EtcdDelete{keys.leader(), ""}}, {}}, 5s).has_value());
    const auto claimed = etcd->txn({{}, {EtcdPut{keys.leader(), "x:1"}}, {}}, 5s);
    REQUIRE(claimed.has_value());
    EtcdJournal::Settings settings;
    settings.prefix = "ddprun";
    settings.leader_revision = claimed->revision;
    settings.boot_time = boot_clock_now();
    settings.pause = [] {};
    auto journal = EtcdJournal::open(make_(), settings, std::make_shared<Tenure>());
    REQUIRE(journal != nullptr);
    return journal;
  }

 private:
  const std::function<std::unique_ptr<Etcd>()> make_;
};

JobRecord began(const std::string& run_id, const std::string& agent) {
  return {run_id, boot_clock_now(), SessionBegan{agent, "10.0.0.1", 15s, 0s}};
}

/// A record of about `bytes`.
JobRecord stopped(const std::string& run_id, proto::RoundNumber round, std::size_t bytes) {
  proto::Stopped stopped;
  stopped.round = round;
  stopped.still_ran.emplace_back();
  stopped.still_ran[0].stacks.assign(bytes / 8'000, std::string(8'000, 'x'));
  return {run_id, boot_clock_now(), Said{"a", stopped}};
}

JobSnapshot snapshot_of(const std::string& run_id, const Names& agents) {
  JobSnapshot snapshot{run_id, {{run_id, boot_clock_now(), JobRestored{}}}};
  for (const std::string& agent : agents) {
    SessionRestored session;
    session.agent = agent;
    snapshot.records.push_back({run_id, boot_clock_now(), session});
  }
  return snapshot;
}

Names names_of(const JournalPast& past, const std::string& run_id) {
  CHECK(past.warnings.empty());
  Names names;
  for (const JobRecord& record : past.records) {
    if (record.run_id != run_id) continue;
    if (const auto* began = std::get_if<SessionBegan>(&record.event)) names.push_back(began->agent);
    if (const auto* restored = std::get_if<SessionRestored>(&record.event))
      names.push_back(restored->agent);
  }
  return names;
}

void commit(Journal& journal) {
  CHECK(journal.commit().empty());
  CHECK(journal.is_durable());
  CHECK(journal.may_answer());
}

void check_conformance(Place& place) {
  const std::string odd = "a/b \xff%/..";
  {  // what was committed, of each job in its order, and nothing else
    const auto journal = place.open();
    CHECK(journal->take_past().records.empty());
    journal->append(began("job", "a"));
    journal->append(began(odd, "x"));
    journal->append(began("job", "b"));
    commit(*journal);
    journal->append(began("job", "c"));
    commit(*journal);
    commit(*journal);
    journal->append(began("job", "never committed"));
  }
  {  // it goes on, with a snapshot and what came after it
    const auto journal = place.open();
    const JournalPast past = journal->take_past();
    CHECK(names_of(past, "job") == Names{"a", "b", "c"});
    CHECK(names_of(past, odd) == Names{"x"});
    journal->append(began("job", "d"));
    journal->replace(snapshot_of("job", {"a", "d"}));
    commit(*journal);
    journal->append(began("job", "e"));
    journal->append(began(odd, "y"));
    commit(*journal);
  }
  {  // a job that is forgotten, and begins anew
    const auto journal = place.open();
    const JournalPast past = journal->take_past();
    CHECK(names_of(past, "job") == Names{"a", "d", "e"});
    CHECK(names_of(past, odd) == Names{"x", "y"});
    journal->append(began("job", "lost with the job"));
    journal->forget("job");
    journal->append(began("job", "new"));
    journal->append(began("short", "s"));
    journal->forget("short");
    journal->forget("unknown");
    commit(*journal);
  }
  {  // many jobs at once, and a snapshot of a job that is new
    const auto journal = place.open();
    const JournalPast past = journal->take_past();
    CHECK(names_of(past, "job") == Names{"new"});
    CHECK(names_of(past, "short").empty());
    for (int i = 0; i < 300; ++i) journal->append(began("job" + std::to_string(i), "z"));
    journal->replace(snapshot_of("fresh", {"f"}));
    journal->forget(odd);
    commit(*journal);
  }
  {
    const auto journal = place.open();
    const JournalPast past = journal->take_past();
    CHECK(past.records.size() == 303);
    CHECK(names_of(past, "job299") == Names{"z"});
    CHECK(names_of(past, "fresh") == Names{"f"});
    CHECK(names_of(past, odd).empty());
    // As many nodes as do not fit into one write.
    Names agents;
    for (int i = 0; i < 20'000; ++i) agents.push_back(std::to_string(i) + std::string(100, 'n'));
    journal->replace(snapshot_of("job", agents));
    commit(*journal);
  }
  {
    const auto journal = place.open();
    CHECK(names_of(journal->take_past(), "job").size() == 20'000);
    journal->forget("job");
    // Records of one commit that do not fit into one write, among them one that alone does not.
    for (proto::RoundNumber round = 0; round < 60; ++round)
      journal->append(stopped("big", round, round == 30 ? 3'000'000 : 70'000));
    commit(*journal);
  }
  {
    proto::RoundNumber round = 0;
    const JournalPast past = place.open()->take_past();
    CHECK(past.warnings.empty());
    for (const JobRecord& record : past.records) {
      if (record.run_id != "big") continue;
      CHECK(std::get<proto::Stopped>(std::get<Said>(record.event).message).round == round++);
    }
    CHECK(round == 60);
  }
  CHECK(names_of(place.open()->take_past(), "job").empty());
}

}  // namespace

TEST_CASE("a journal in a folder does what the service expects") {
  Folder folder;
  check_conformance(folder);
}

TEST_CASE("a journal in an etcd in memory does what the service expects") {
  const auto model = std::make_shared<ModelEtcd>();
  EtcdStore store([=] { return std::make_unique<ModelClient>(model); });
  check_conformance(store);
}

TEST_CASE("a journal in a real etcd does what the service expects") {
  const RealEtcd etcd(1);
  EtcdStore store([&] { return etcd.client(); });
  check_conformance(store);
}
