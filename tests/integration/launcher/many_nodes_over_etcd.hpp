// Jobs of several nodes that meet over a real etcd, without an rdzvd.
#pragma once

#include "tests/integration/launcher/many_nodes.hpp"
#include "tests/support/real_etcd.hpp"

namespace ddprun::test {

struct OverEtcd : ManyNodes {
  explicit OverEtcd(std::size_t members = 1, const std::vector<std::string>& options = {},
                    const rdzv::EtcdAccess& access = {})
      : etcd(members, options, access) {}

  /// One node with one worker, which runs on until the gate is open.
  Child& add(const std::string& count, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"--nnodes=" + count,   "--nproc-per-node=1",
                                   "--rdzv-backend=etcd", "--rdzv-endpoint=" + etcd.endpoints(),
                                   "--rdzv-id=job",       "--max-restarts=2"};
    words.insert(words.end(), more.begin(), more.end());
    return start(words, {"until", gate()});
  }
  [[nodiscard]] std::string leader() const { return etcd.value("ddprun/runs/job/leader"); }
  /// Waits until one leads, after another.
  std::string leader_after(const std::string& old) const {
    std::string place;
    REQUIRE(eventually(
        [&] {
          place = leader();
          return !place.empty() && place != old;
        },
        std::chrono::seconds(30)));
    return place;
  }
  /// The agent that leads does no more, as if etcd had ended its lease, until another one does.
  void pass_on(const std::string& folder = "ddprun/runs/job") const {
    const std::string key = folder + "/leader";
    const auto is_candidate = [&](const char* slot) {
      return !etcd.value(folder + "/candidates/" + slot).empty();
    };
    REQUIRE(eventually([&] { return is_candidate("2"); }, std::chrono::seconds(30)));
    const std::string old = etcd.value(key);
    REQUIRE_FALSE(old.empty());
    // The old one may be the first to see that none leads.
    REQUIRE(eventually(
        [&] {
          const std::string now = etcd.value(key);
          if (now != old) return !now.empty();
          const auto deleted =
              etcd.client()->txn({{}, {rdzv::EtcdDelete{key, ""}}, {}}, RealEtcd::kLimit);
          REQUIRE(deleted.has_value());
          return false;
        },
        std::chrono::seconds(30)));
  }
  /// Whose slot it has: the number of the node, by the order in which they were started. Each must
  /// have its slot before the next is started.
  [[nodiscard]] std::size_t index_of(const std::string& place) const {
    for (std::size_t slot = 1; slot <= 3; ++slot)
      if (etcd.value("ddprun/runs/job/candidates/" + std::to_string(slot)) == place)
        return slot - 1;
    FAIL("no candidate is at " << place);
    return 0;
  }
  void await_slot(std::size_t number) const {
    REQUIRE(eventually(
        [&] { return !etcd.value("ddprun/runs/job/candidates/" + std::to_string(number)).empty(); },
        std::chrono::seconds(30)));
  }
  /// The job ends without having restarted, on each node, and leaves nothing in etcd.
  void end_in_order() {
    open_gate();
    succeed_without_restart(*this, nodes.size());
    CHECK(etcd.keys().empty());
    nodes.clear();
  }

  RealEtcd etcd;
};

}  // namespace ddprun::test
