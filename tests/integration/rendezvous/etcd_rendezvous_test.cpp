// An agent's part in a rendezvous over a real etcd, in this process: what it can do without.
#include <sys/resource.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "rendezvous/shared/etcd_rendezvous.hpp"
#include "tests/support/closed_etcd.hpp"

using namespace ddprun;
using namespace ddprun::rdzv;
using namespace ddprun::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

/// No further descriptor can be opened while it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &usual_);
    rlimit none = usual_;
    none.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &usual_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit usual_{};
};

struct AgentOverEtcd {
  AgentOverEtcd(const RealEtcd& etcd, const std::string& prefix) {
    settings.etcd.members = {Endpoint("127.0.0.1", etcd.port(0))};
    settings.etcd.prefix = prefix;
    settings.slots_every = 100ms;
    settings.ask_pause = 10ms;
    settings.on_warning = [](const std::string&) {};
    settings.on_info = [](const std::string&) {};
    settings.on_open = [this](const Endpoint&) { is_open = true; };
  }
  void start(const std::string& secret) {
    rendezvous.emplace(context, settings);
    ServiceServerSettings service;
    service.secret = secret;
    REQUIRE_FALSE(rendezvous->start(std::move(service)));
  }
  FoundService find() {
    std::optional<FoundService> found;
    rendezvous->find([&](const FoundService& one) { found = one; });
    context.restart();
    const auto work = boost::asio::make_work_guard(context);
    for (const auto end = std::chrono::steady_clock::now() + 20s;
         !found && std::chrono::steady_clock::now() < end;)
      context.run_one_for(1s);
    REQUIRE(found.has_value());
    return *found;
  }
  bool finds(const std::function<bool(const FoundService&)>& is_wanted) {
    return eventually([&] { return is_wanted(find()); }, 20s);
  }

  bool finds_reason(const std::string& expected) {
    return finds(
        [&](const auto& found) { return found.reason.find(expected) != std::string::npos; });
  }

  boost::asio::io_context context;
  EtcdRendezvousSettings settings;
  std::atomic<bool> is_open{false};
  std::optional<EtcdRendezvous> rendezvous;
};

}  // namespace

TEST_CASE("an agent that cannot host gives its slot up, and hosts with its secret once it can") {
  const RealEtcd etcd(1);
  AgentOverEtcd agent(etcd, "run");
  std::mutex mutex;
  std::optional<NoDescriptors> none;
  std::string warnings;
  int hosted = 0;
  agent.settings.on_info = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    if (line.find("hosts a candidate") != std::string::npos && ++hosted == 1) none.emplace();
  };
  agent.settings.on_warning = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    none.reset();
    warnings += line + "\n";
  };
  agent.start("sixteen bytes or more");
  REQUIRE(eventually(
      [&] {
        const std::lock_guard lock(mutex);
        return !warnings.empty();
      },
      20s));
  CHECK(agent.finds([](const auto& found) { return found.place.has_value(); }));
  CHECK(agent.rendezvous->is_candidate());
  agent.rendezvous->end();
  CHECK(hosted == 2);
  CHECK_THAT(warnings, Contains("cannot host the rendezvous: Too many open files"));
  CHECK_FALSE(agent.is_open);
}

TEST_CASE("an agent may claim a slot late, though it has one port to listen on") {
  RealEtcd etcd(1);
  give_users(etcd, "ann", "short");
  const auto grant = [&](const std::string& what) {
    etcdctl(etcd, {"--user=root:root password", "role", "grant-permission", "jobs", "--prefix=true",
                   what, "other/"});
  };
  grant("read");
  AgentOverEtcd agent(etcd, "other/run");
  agent.settings.access.user = "ann";
  agent.settings.access.password = "short";
  agent.settings.port_first = agent.settings.port_last = free_ports(1)[0];
  agent.start("sixteen bytes or more");
  CHECK(agent.finds_reason("no agent of the job leads yet: the user may not do that in etcd"));
  grant("readwrite");
  REQUIRE(agent.finds([](const auto& found) { return found.place.has_value(); }));
  CHECK(agent.find().place->port == agent.settings.port_first);
}

TEST_CASE("what kept an agent from looking at the slots is not told once it could") {
  RealEtcd etcd(1);
  give_users(etcd, "ann", "short");
  for (const char* slot : {"1", "2", "3"})
    etcd.put(std::string("other/run/candidates/") + slot, "127.0.0.1:1");
  const auto grant = [&](const std::vector<std::string>& keys) {
    std::vector<std::string> words{"--user=root:root password", "role", "grant-permission", "jobs"};
    words.insert(words.end(), keys.begin(), keys.end());
    etcdctl(etcd, words);
  };
  grant({"read", "other/run/leader"});
  AgentOverEtcd agent(etcd, "other/run");
  agent.settings.access.user = "ann";
  agent.settings.access.password = "short";
  agent.start("sixteen bytes or more");
  CHECK(agent.finds_reason("no agent of the job leads yet: the user may not do that in etcd"));
  grant({"--prefix=true", "read", "other/"});
  CHECK(agent.finds(
      [](const auto& found) { return found.reason == "no agent of the job leads yet"; }));
}

TEST_CASE("an agent asks for no slot before its turn to look for one") {
  const RealEtcd etcd(1);
  AgentOverEtcd agent(etcd, "run");
  agent.settings.first_look = 1h;
  agent.start("sixteen bytes or more");
  for (int i = 0; i < 3; ++i) CHECK(agent.find().reason == "no agent of the job leads yet");
  CHECK(etcd.keys().empty());
}

TEST_CASE("a candidate stands in etcd by the name that was typed for its machine") {
  const RealEtcd etcd(1);
  AgentOverEtcd agent(etcd, "run");
  agent.settings.local_addr = "127.0.0.1";
  agent.settings.local_name = "localhost";
  agent.start("sixteen bytes or more");
  REQUIRE(agent.finds([](const auto& found) { return found.place.has_value(); }));
  CHECK(agent.find().place->host == "localhost");
}
