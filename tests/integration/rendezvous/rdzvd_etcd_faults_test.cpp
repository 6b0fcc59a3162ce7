// Several rdzvd over a real etcd that somebody else compacts, fills or forbids, and that has keys
// of others; and one that is too old.
#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "tests/integration/rendezvous/etcd_cluster.hpp"
#include "tests/integration/rendezvous/raw_client.hpp"
#include "tests/support/closed_etcd.hpp"
#include "tests/support/old_etcd.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Catch::Matchers::Contains;

namespace {

/// What a key holds: any write to it changes its revision, also one of the same value.
struct Known {
  std::string value;
  rdzv::EtcdRevision revision = 0;
  bool operator==(const Known&) const = default;
};

std::map<std::string, Known> all_keys(const RealEtcd& etcd) {
  const auto page =
      etcd.client()->range({std::string(1, '\0'), "\xff", 10'000, 0}, RealEtcd::kLimit);
  REQUIRE(page.has_value());
  std::map<std::string, Known> keys;
  for (const auto& one : page->keys) keys[one.key] = {one.value, one.mod_revision};
  return keys;
}

/// Compacts all history, again and again, as an operator or another program may.
class Compacter {
 public:
  explicit Compacter(const RealEtcd& etcd)
      : thread_([this, client = etcd.client()] { run(*client); }) {}
  ~Compacter() { stop(); }
  Compacter(const Compacter&) = delete;
  Compacter& operator=(const Compacter&) = delete;

  /// How often something was compacted.
  int stop() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
    return times_;
  }

 private:
  void run(rdzv::Etcd& client) {
    rdzv::EtcdRevision last = 0;
    while (!is_over_) {
      const auto page = client.range({"x", "", 1, 0}, RealEtcd::kLimit);
      if (page && page->revision > last && client.compact(page->revision, RealEtcd::kLimit)) {
        last = page->revision;
        ++times_;
      }
      std::this_thread::sleep_for(5ms);
    }
  }

  std::atomic<bool> is_over_{false};
  std::atomic<int> times_{0};
  std::thread thread_;
};

/// As `etcdctl` has no command for it.
void raise_alarm(const RealEtcd& etcd, const std::string& alarm) {
  RawClient client(etcd.port(0));
  const std::string body = R"({"action":"ACTIVATE","memberID":"1","alarm":")" + alarm + R"("})";
  REQUIRE(client.send("POST /v3/maintenance/alarm HTTP/1.1\r\nHost: etcd\r\nContent-Length: " +
                      std::to_string(body.size()) + "\r\n\r\n" + body));
  REQUIRE_THAT(client.receive(15), Contains("200 OK"));
}

/// An rdzvd with these options prints a line that has `text`, and does not repeat it.
void check_told_once(const Words& options, const std::string& text) {
  Words all{"--listen=127.0.0.1:0"};
  all.insert(all.end(), options.begin(), options.end());
  Rdzvd rdzvd(all);
  const bool is_told = rdzvd.child.wait_for(
      [&](const auto&, const auto& err) { return err.find(text) != std::string::npos; });
  INFO(rdzvd.child.err());
  REQUIRE(is_told);
  std::this_thread::sleep_for(1500ms);
  const std::string err = rdzvd.stop().err;
  INFO(err);
  CHECK(err.find(text, err.find(text) + 1) == std::string::npos);
}

}  // namespace

TEST_CASE("what others compact in a real etcd disturbs neither a leader nor the next one") {
  EtcdCluster job(1, 2);
  Compacter compacter(job.etcd);
  job.add_agents(2);
  job.join_all();
  REQUIRE(job.all_in(0));
  job.fail_round(0);
  CHECK(job.rdzvd[0]->stop().status == 0);
  REQUIRE(job.leader_after(0) == 1);
  job.fail_round(1);
  CHECK(compacter.stop() > 5);
  job.finish(2, 2);
  CHECK_THAT(job.rdzvd[1]->stop().err, !Contains("compacted") && !Contains("no longer leads"));
}

TEST_CASE("keys of other prefixes in a real etcd are neither read as ours nor touched") {
  EtcdCluster job(1, 2);
  job.add_agents(2);
  job.join_all();
  REQUIRE(job.all_in(0));
  // The journal of this job under names that begin as ours do, or are below ours, as of runs.
  std::map<std::string, Known> ours = all_keys(job.etcd);
  REQUIRE(ours.contains("ddprun/jobs/job/head"));
  for (const auto& [key, known] : ours) {
    if (!key.starts_with("ddprun/jobs/job/")) continue;
    const std::string alien = "jobs/alien/" + key.substr(std::string("ddprun/jobs/job/").size());
    for (const char* prefix :
         {"ddprun-2/", "ddprun0/", "ddpru/", "ddprun/runs/x/", "ddprun/ddprun/"})
      job.etcd.put(prefix + alien, known.value);
  }
  for (const char* key :
       {"ddprun", "ddprun.", "ddprun/jobs0", "ddprun/jobs", "ddprun/leader2", "a", "~"})
    job.etcd.put(key, "theirs");
  auto theirs = all_keys(job.etcd);
  std::erase_if(theirs, [&](const auto& one) { return ours.contains(one.first); });
  REQUIRE(theirs.size() >= 17);

  CHECK(job.rdzvd[0]->stop().status == 0);
  REQUIRE(job.leader_after(0) == 1);
  job.fail_round(0);
  const ChildResult status =
      run(rdzvd_command({"--status", "--endpoint=" + to_string(job.endpoints[1])}));
  CHECK(status.status == 0);
  CHECK_THAT(status.out, Contains(": 1 job;") && !Contains("alien"));
  job.finish(1, 1);
  CHECK(eventually([&] { return job.etcd.value("ddprun/jobs/job/head").empty(); }, 40s));
  const ChildResult last = job.rdzvd[1]->stop();
  INFO(last.err);
  CHECK_THAT(last.err, !Contains("alien") && !Contains("cannot be used"));
  auto left = all_keys(job.etcd);
  std::erase_if(left, [&](const auto& one) { return !theirs.contains(one.first); });
  CHECK((left == theirs));
}

TEST_CASE("an etcd in which rdzvd may only read is named once, with the command that helps") {
  RealEtcd etcd(1);
  give_users(etcd, "ann", "short");
  const std::string root = "--user=root:root password";
  etcdctl(etcd, {root, "role", "add", "readers"});
  etcdctl(etcd, {root, "role", "grant-permission", "readers", "--prefix=true", "read", "ddprun/"});
  etcdctl(etcd, {root, "user", "add", "bob:short"});
  etcdctl(etcd, {root, "user", "grant-role", "bob", "readers"});
  const PasswordFile password("short");
  check_told_once(
      {"--journal=" + etcd.place(), "--etcd-user=bob", "--etcd-password-file=" + password.path()},
      "the user may not do that in etcd at " + etcd.endpoints() +
          ": give a role of it the prefix (etcdctl role grant-permission ROLE "
          "--prefix=true readwrite PREFIX/)");
}

TEST_CASE("an etcd with an alarm is named once, with the alarm and what to do") {
  const auto [alarm, expected] = GENERATE(table<std::string, std::string>(
      {{"NOSPACE", "is out of space (alarm NOSPACE) and takes no writes"},
       {"CORRUPT",
        "refuses all requests, because the data of its members differ (alarm CORRUPT)"}}));
  CAPTURE(alarm);
  const RealEtcd etcd(1);
  raise_alarm(etcd, alarm);
  check_told_once({"--journal=" + etcd.place()}, "etcd at " + etcd.endpoints() + " " + expected);
}

TEST_CASE("a leader of which the etcd raises an alarm ends in order, and says why") {
  EtcdCluster job(1, 1);
  raise_alarm(job.etcd, "CORRUPT");
  CHECK(job.rdzvd[0]->child.wait_for([](const auto&, const auto& err) {
    return err.find("(alarm CORRUPT)") != std::string::npos;
  }));
  CHECK(job.rdzvd[0]->stop().status == 0);
}

TEST_CASE("an etcd of version 2 is named as too old, once") {
  const OldEtcd old;
  check_told_once({"--journal=etcd://" + old.place()},
                  old.place() + " has no /v3 (HTTP status 404): etcd 3.4 or newer is needed");
}
