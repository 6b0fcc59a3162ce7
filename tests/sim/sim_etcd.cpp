#include "tests/sim/sim_etcd.hpp"

namespace ddprun::sim {

using namespace std::chrono_literals;

Duration SimEtcd::draw_delay() {
  if (is_slow_ && world_.one_in(2)) return world_.up_to(4s);
  return world_.up_to(world_.one_in(16) ? Duration(40ms) : Duration(3ms));
}

/// Its clock is the world's.
test::ModelEtcd& SimEtcd::model() {
  model_.now = world_.now();
  return model_;
}

rdzv::EtcdRevision SimEtcd::leader_revision() {
  const rdzv::EtcdPage page = model().range({keys_.leader(), "", 1, 0});
  return page.keys.empty() ? 0 : page.keys.front().create_revision;
}

rdzv::EtcdResult<rdzv::EtcdTxnAnswer> SimEtcd::write(const rdzv::EtcdTxn& txn,
                                                     rdzv::EtcdRevision leader) {
  const rdzv::EtcdRevision revision = leader_revision();
  auto answer = model().checked_txn(txn);
  if (answer && answer->succeeded && revision != leader)
    broken_ = "one that leads no more writes nothing";
  return answer;
}

void SimEtcd::set_clocks_wrong() {
  are_clocks_wrong_ = true;
  choose_leading_member();
}

/// The one by the clock of which leases end.
void SimEtcd::choose_leading_member() {
  if (!are_clocks_wrong_) return;
  const auto percent = static_cast<std::int64_t>(world_.one_in(2) ? 92 : 92 + world_.below(49));
  model_.lease_lasts = [percent](std::chrono::seconds ttl) {
    return Duration(ttl) / 100 * percent;
  };
}

void SimEtcd::go_away(Duration lasts) {
  if (std::exchange(is_away_, true)) return;
  is_refusing_ = world_.one_in(2);
  world_.note("etcd is away");
  world_.after(lasts, [this] { come_back(); });
}

/// A member that begins to lead the others lets no lease end before its whole time.
void SimEtcd::come_back() {
  if (!std::exchange(is_away_, false)) return;
  world_.note("etcd is back");
  model_.now = world_.now();
  if (!world_.one_in(2)) return;
  choose_leading_member();
  model_.extend_leases();
}

void SimEtcd::be_slow(Duration lasts) {
  if (std::exchange(is_slow_, true)) return;
  world_.note("etcd is slow");
  world_.after(lasts, [this] { is_slow_ = false; });
}

void SimEtcd::lose(Duration lasts) {
  if (std::exchange(loses_, true)) return;
  world_.note("etcd loses requests and answers");
  world_.after(lasts, [this] { loses_ = false; });
}

void SimEtcd::heal() {
  come_back();
  is_slow_ = loses_ = false;
}

}  // namespace ddprun::sim
