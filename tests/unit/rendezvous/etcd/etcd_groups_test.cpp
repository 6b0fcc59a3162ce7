// How records become requests to etcd: none is larger than etcd takes, and the order stays.
#include <catch2/catch.hpp>
#include <map>

#include "rendezvous/etcd/etcd_json.hpp"
#include "rendezvous/etcd/etcd_records.hpp"
#include "rendezvous/service/journal_format.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using namespace ddprun::rdzv;
using Groups = std::deque<std::vector<EtcdChange>>;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// A record of about `bytes`, with a number by which it is known.
JobRecord numbered(const std::string& run_id, int number, std::size_t bytes) {
  proto::Stopped stopped;
  stopped.round = static_cast<proto::RoundNumber>(number);
  stopped.still_ran.emplace_back();
  stopped.still_ran[0].stacks.assign(1 + bytes / 8'000,
                                     std::string(std::min<std::size_t>(bytes, 8'000), 'x'));
  return {run_id, Clock::time_point(5h), Said{"a", stopped}};
}

std::vector<int> numbers_in(const std::string& journal) {
  const JournalContent content = read_journal(journal);
  CHECK(content.state == JournalContent::State::whole);
  std::vector<int> numbers;
  for (const JobRecord& record : content.records)
    numbers.push_back(
        static_cast<int>(std::get<proto::Stopped>(std::get<Said>(record.event).message).round));
  return numbers;
}

/// As etcd would: the parts of each job, in the order of their keys.
std::map<std::string, std::string> written(const EtcdKeys& keys, const Groups& groups) {
  std::map<std::string, std::string> parts;
  for (const auto& group : groups) {
    for (const EtcdChange& change : group) {
      const auto* put = std::get_if<EtcdPut>(&change);
      if (put != nullptr && !put->key.ends_with("/head")) {
        CHECK_FALSE(parts.contains(put->key));
        parts[put->key] = put->value;
      }
    }
  }
  std::map<std::string, std::string> journals;
  for (const std::string job : {"one", "two"}) {
    for (const auto& [key, value] : parts)
      if (key.starts_with(keys.job(job))) journals[job] += value;
  }
  return journals;
}

/// etcd takes requests of 1.5 MiB and values of any size within; those of its gateway are a third
/// larger, which it takes as well.
void check_sizes(const Groups& groups) {
  for (const auto& group : groups) {
    std::size_t bytes = 0;
    CHECK(group.size() <= 100);
    for (const EtcdChange& change : group) {
      if (const auto* put = std::get_if<EtcdPut>(&change)) {
        CHECK(put->key.size() + put->value.size() <= kMiB);
        bytes += put->key.size() + put->value.size();
      }
    }
    CHECK(bytes <= kMiB);
    CHECK(etcd_txn_body({{}, group, {}}).size() < 3 * kMiB / 2);
  }
}

}  // namespace

TEST_CASE("a commit of more than 1 MiB is several requests of at most 1 MiB, in its order") {
  const EtcdKeys keys("p");
  EtcdRecords records(keys);
  std::map<std::string, std::vector<int>> expected;
  const auto append = [&](const std::string& job, int number, std::size_t bytes) {
    records.append(numbered(job, number, bytes));
    expected[job].push_back(number);
  };
  int next = 0;
  for (int i = 0; i < 25; ++i) {
    append("one", next++, 70'000);
    append("two", next++, 100);
  }
  const Groups first = records.take_groups();
  CHECK(first.size() >= 2);
  check_sizes(first);
  for (int i = 0; i < 8; ++i) append("one", next++, 300'000);
  const Groups second = records.take_groups();
  CHECK(second.size() >= 3);
  check_sizes(second);
  Groups all = first;
  all.insert(all.end(), second.begin(), second.end());
  const auto journals = written(keys, all);
  for (const auto& [job, numbers] : expected) CHECK(numbers_in(journals.at(job)) == numbers);
  // Cut after any request it is a beginning: nothing of a later one was needed.
  for (std::size_t count = 0; count <= second.size(); ++count) {
    Groups cut = first;
    cut.insert(cut.end(), second.begin(), second.begin() + static_cast<std::ptrdiff_t>(count));
    const JournalContent content = read_journal(written(keys, cut).at("one"));
    CHECK(content.state != JournalContent::State::damaged);
    CHECK(content.records.size() >= 25);
  }
}

TEST_CASE("one record that is larger than a request is divided, and read as one") {
  const EtcdKeys keys("p");
  EtcdRecords records(keys);
  records.append(numbered("one", 1, 100));
  records.append(numbered("one", 2, 3 * kMiB));
  records.append(numbered("one", 3, 100));
  const Groups groups = records.take_groups();
  CHECK(groups.size() >= 4);
  check_sizes(groups);
  CHECK(numbers_in(written(keys, groups).at("one")) == std::vector<int>{1, 2, 3});
}
