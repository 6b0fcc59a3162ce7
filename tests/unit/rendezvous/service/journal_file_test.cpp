// A journal in a folder: what the next process finds, and what faults of the disk do.
#include "rendezvous/service/journal_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "rendezvous/service/journal_format.hpp"
#include "tests/support/full_disk.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/unit/rendezvous/service/service_script.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
using rdzv::Clock;
using rdzv::FileJournal;
using rdzv::JobRecord;
using rdzv::JournalPast;

namespace {

const Clock::time_point kNow{5h};

std::shared_ptr<FileJournal> open(const TempDir& dir, const std::string& boot = "boot",
                                  Clock::time_point now = kNow) {
  auto opened = FileJournal::open((dir / "state").string(), boot, now);
  REQUIRE(opened.has_value());
  return *opened;
}

JobRecord began(const std::string& run_id, const std::string& agent, Clock::time_point at = kNow) {
  return {run_id, at, rdzv::SessionBegan{agent, "10.0.0.1", 15s, 0s}};
}

std::vector<std::string> agents_of(const JournalPast& past, const std::string& run_id = "job") {
  std::vector<std::string> agents;
  for (const JobRecord& record : past.records)
    if (record.run_id == run_id) agents.push_back(std::get<rdzv::SessionBegan>(record.event).agent);
  return agents;
}

/// A job with this one agent.
rdzv::JobSnapshot snapshot_of(const std::string& agent) {
  rdzv::SessionRestored session;
  session.agent = agent;
  return {"job", {{"job", kNow, rdzv::JobRestored{}}, {"job", kNow, session}}};
}

/// The agents in the snapshot, and those that have come since.
std::vector<std::string> names_in(const JournalPast& past) {
  std::vector<std::string> names;
  for (const JobRecord& record : past.records) {
    if (record.run_id != "job") continue;
    if (const auto* began = std::get_if<rdzv::SessionBegan>(&record.event))
      names.push_back(began->agent);
    if (const auto* restored = std::get_if<rdzv::SessionRestored>(&record.event))
      names.push_back(restored->agent);
  }
  return names;
}

void write(FileJournal& journal, const std::vector<JobRecord>& records) {
  for (const JobRecord& record : records) journal.append(record);
  CHECK(journal.commit().empty());
  CHECK(journal.is_durable());
}

using Agents = std::vector<std::string>;

}  // namespace

TEST_CASE("the next process finds what was committed, of each job in its order") {
  const TempDir dir;
  const std::string odd(255, '\xff');
  {
    const auto journal = open(dir);
    const JournalPast past = journal->take_past();
    CHECK(past.records.empty());
    CHECK_FALSE(past.is_complete);  // what was before is unknown
    CHECK(past.warnings.empty());
    write(*journal, {began("job", "a"), began(odd, "x"), began("job", "b")});
    write(*journal, {began("job", "c")});
    journal->append(began("job", "never committed"));
  }
  struct stat status {};
  REQUIRE(stat((dir / "state").c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0700);
  for (int i = 0; i < 2; ++i) {
    const auto journal = open(dir);
    const JournalPast past = journal->take_past();
    CHECK(past.is_complete);
    CHECK(past.warnings.empty());
    CHECK(agents_of(past, odd) == Agents{"x"});
    CHECK(agents_of(past) == (i == 0 ? Agents{"a", "b", "c"} : Agents{"a", "b", "c", "d"}));
    if (i == 0) write(*journal, {began("job", "d")});
  }
}

TEST_CASE("two long run ids that begin alike have a file each, and a job that is forgotten none") {
  const TempDir dir;
  const std::string one = std::string(250, 'a') + "1";
  const std::string two = std::string(250, 'a') + "2";
  {
    const auto journal = open(dir);
    write(*journal, {began(one, "x"), began(two, "y"), began("job", "a")});
    journal->forget("job");
    journal->forget("unknown");
  }
  {
    const auto journal = open(dir);
    const JournalPast past = journal->take_past();
    CHECK(agents_of(past, one) == Agents{"x"});
    CHECK(agents_of(past, two) == Agents{"y"});
    CHECK(agents_of(past).empty());
    journal->forget(one);
    write(*journal, {began("job", "b"), began(one, "z")});
  }
  const JournalPast past = open(dir)->take_past();
  CHECK(agents_of(past) == Agents{"b"});
  CHECK(agents_of(past, one) == Agents{"z"});
}

TEST_CASE("a state folder has one user at a time") {
  const TempDir dir;
  const auto journal = open(dir);
  const auto second = FileJournal::open((dir / "state").string(), "boot", kNow);
  REQUIRE(second.has_error());
  CHECK(second.error().find("in use by the process " + std::to_string(getpid())) !=
        std::string::npos);
  CHECK(FileJournal::open((dir / "no" / "folder").string(), "boot", kNow).has_error());
}

TEST_CASE("a record that a crash has cut is cut off, and the journal goes on") {
  const TempDir dir;
  {
    write(*open(dir), {began("job", "a"), began("job", "b")});
    const auto file = dir / "state" / "job.journal";
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 3);
  }
  {
    const auto journal = open(dir);
    const JournalPast past = journal->take_past();
    CHECK(agents_of(past) == Agents{"a"});
    CHECK(past.is_complete);
    REQUIRE(past.warnings.size() == 1);
    CHECK(past.warnings[0].find("record 2") != std::string::npos);
    write(*journal, {began("job", "c")});
  }
  CHECK(agents_of(open(dir)->take_past()) == Agents{"a", "c"});
}

TEST_CASE("a damaged journal is set aside, the others are not") {
  const TempDir dir;
  write(*open(dir), {began("job", "a"), began("job", "b"), began("other", "x")});
  const auto path = dir / "state" / "job.journal";
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(rdzv::journal_head("job").size() + 20));
    file.put('\x07');
  }
  const auto journal = open(dir);
  const JournalPast past = journal->take_past();
  CHECK(agents_of(past).empty());
  CHECK(agents_of(past, "other") == Agents{"x"});
  CHECK_FALSE(past.is_complete);
  REQUIRE(past.warnings.size() == 1);
  CHECK(past.warnings[0].find("set aside as job.journal.damaged: record 1") != std::string::npos);
  CHECK(std::filesystem::exists(path.string() + ".damaged"));
  write(*journal, {began("job", "c")});
}

TEST_CASE("the service's clock goes on over restarts of the process and of the machine") {
  const TempDir dir;
  write(*open(dir), {began("job", "a", kNow + 1s)});
  // Within one boot it is the boot clock: the time in between has passed.
  CHECK(open(dir, "boot", kNow + 1h)->take_past().clock_shift == 0s);
  // After another boot it goes on where the records end.
  CHECK(open(dir, "boot 2", Clock::time_point(1min))->take_past().clock_shift ==
        kNow + 1s - Clock::time_point(1min));
  CHECK(open(dir, "boot 2", Clock::time_point(2h))->take_past().clock_shift ==
        kNow + 1s - Clock::time_point(1min));
  CHECK(open(dir, "", Clock::time_point(1min))->take_past().clock_shift ==
        kNow + 1s - Clock::time_point(1min));
  // It does so where the other machine runs for longer, too: what is waited for must not be over at
  // once.
  CHECK(open(dir, "boot 3", kNow + 9'600h)->take_past().clock_shift == 1s - 9'600h);
  CHECK(open(dir, "boot 3", kNow + 9'601h)->take_past().clock_shift == 1s - 9'600h);
}

TEST_CASE("what cannot be written is kept, said once, and written when there is room again") {
  const TempDir dir;
  const bool ends_meanwhile = GENERATE(false, true);
  {
    const auto journal = open(dir);
    write(*journal, {began("job", "a"), began("other", "x")});
    {
      const FullDisk full(std::filesystem::file_size(dir / "state" / "job.journal") + 10);
      journal->append(began("job", "b"));
      const auto lines = journal->commit();
      REQUIRE(lines.size() == 1);
      CHECK(lines[0].find("cannot write the journal of the job 'job'") == 0);
      CHECK(lines[0].find("File too large") != std::string::npos);
      CHECK_FALSE(journal->is_durable());
      journal->append(began("job", "c"));
      CHECK(journal->commit().empty());
      CHECK_FALSE(journal->is_durable());
    }
    if (!ends_meanwhile) {
      CHECK(journal->commit() == std::vector<std::string>{"the journal is durable again"});
      CHECK(journal->is_durable());
    }
  }
  const JournalPast past = open(dir)->take_past();
  // A file that lacks what was told is none of the past's.
  CHECK(agents_of(past) == (ends_meanwhile ? Agents{} : Agents{"a", "b", "c"}));
  CHECK(agents_of(past, "other") == Agents{"x"});
  CHECK(past.is_complete == !ends_meanwhile);
  CHECK(past.warnings.size() == (ends_meanwhile ? 1 : 0));
}

TEST_CASE("a snapshot takes the place of all that came before it") {
  const TempDir dir;
  {
    const auto journal = open(dir);
    write(*journal, {began("job", "a"), began("other", "x")});
    journal->append(began("job", "b"));
    journal->replace(snapshot_of("c"));
    journal->append(began("job", "d"));
    CHECK(journal->commit().empty());
    CHECK(journal->is_durable());
    write(*journal, {began("job", "e")});
    journal->replace(snapshot_of("f"));
    journal->append(began("job", "never committed"));
  }
  {
    // As an rdzvd leaves it that is killed while it writes the new file.
    std::ofstream(dir / "state" / "job.journal.new") << "half";
    const auto journal = open(dir);
    const JournalPast past = journal->take_past();
    CHECK(past.warnings.empty());
    CHECK(past.is_complete);
    CHECK(names_in(past) == Agents{"c", "d", "e"});
    CHECK(agents_of(past, "other") == Agents{"x"});
    CHECK_FALSE(std::filesystem::exists(dir / "state" / "job.journal.new"));
    write(*journal, {began("job", "g")});
  }
  CHECK(names_in(open(dir)->take_past()) == Agents{"c", "d", "e", "g"});
}

TEST_CASE("a job may begin with a snapshot, and be forgotten before it is written") {
  const TempDir dir;
  const bool is_forgotten = GENERATE(false, true);
  {
    const auto journal = open(dir);
    journal->append(began("job", "a"));
    journal->replace(snapshot_of("c"));
    if (is_forgotten) journal->forget("job");
    CHECK(journal->commit().empty());
    write(*journal, {began("job", "d")});
  }
  CHECK(names_in(open(dir)->take_past()) == (is_forgotten ? Agents{"d"} : Agents{"c", "d"}));
}

TEST_CASE("where a snapshot cannot be written, the records stay and go on") {
  const TempDir dir;
  {
    const auto journal = open(dir);
    write(*journal, {began("job", "a")});
    std::filesystem::create_directory(dir / "state" / "job.journal.new");
    journal->append(began("job", "b"));
    journal->replace(snapshot_of("c"));
    const auto lines = journal->commit();
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find("cannot shorten the journal of the job 'job'") == 0);
    CHECK(journal->is_durable());
    write(*journal, {began("job", "d")});
    std::filesystem::remove(dir / "state" / "job.journal.new");
  }
  CHECK(names_in(open(dir)->take_past()) == Agents{"a", "b", "d"});
}

TEST_CASE("a snapshot makes a journal durable again that could not be written") {
  const TempDir dir;
  {
    const auto journal = open(dir);
    for (int i = 0; i < 100; ++i) journal->append(began("job", "a" + std::to_string(i)));
    CHECK(journal->commit().empty());
    const FullDisk full(std::filesystem::file_size(dir / "state" / "job.journal") + 10);
    journal->append(began("job", "b"));
    CHECK(journal->commit().size() == 1);
    CHECK_FALSE(journal->is_durable());
    journal->append(began("job", "c"));
    journal->replace(snapshot_of("c"));
    CHECK(journal->commit() == std::vector<std::string>{"the journal is durable again"});
    CHECK(journal->is_durable());
  }
  const JournalPast past = open(dir)->take_past();
  CHECK(past.is_complete);
  CHECK(names_in(past) == Agents{"c"});
}
