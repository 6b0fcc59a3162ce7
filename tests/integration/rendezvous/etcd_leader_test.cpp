// The leadership kept up by its thread, over an etcd in memory: what people are told.
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "rendezvous/etcd/etcd_leader.hpp"
#include "tests/support/child.hpp"
#include "tests/unit/rendezvous/etcd/model_etcd.hpp"

using namespace ddprun::rdzv;
using namespace ddprun::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

/// Its user may not compact the history.
class RefusingClient : public ModelClient {
 public:
  RefusingClient(std::shared_ptr<ModelEtcd> model, std::atomic<int>& refused)
      : ModelClient(std::move(model)), refused_(refused) {}

  EtcdResult<std::monostate> compact(EtcdRevision, Limit) override {
    ++refused_;
    return EtcdFault{EtcdFault::Kind::refused, "permission denied"};
  }

 private:
  std::atomic<int>& refused_;
};

}  // namespace

TEST_CASE("that etcd's history may not be compacted is told once, and the leader goes on") {
  std::atomic<int> refused{0};
  LeadershipSettings settings;
  settings.prefix = "p";
  settings.place = "a:1";
  settings.period = 20ms;
  settings.history = std::chrono::minutes(0);
  std::mutex mutex;
  std::vector<std::string> warnings;
  EtcdLeader::Events events;
  events.changed = [] {};
  events.warn = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    warnings.push_back(line);
  };
  const auto etcd = std::make_shared<ModelEtcd>();
  const auto leader = EtcdLeader::start(
      [&](const auto&) { return std::make_unique<RefusingClient>(etcd, refused); }, settings,
      std::move(events));
  REQUIRE(leader.has_value());
  const auto has_role = [&](Leadership::Role role) { return (*leader)->view().role == role; };
  REQUIRE(eventually([&] { return has_role(Leadership::Role::elected); }, 20s));
  (*leader)->lead(0ns, 0);
  CHECK(eventually([&] { return refused > 3; }, 20s));
  CHECK(has_role(Leadership::Role::leading));
  (*leader)->end();
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("etcd refuses to compact its history"));
}
