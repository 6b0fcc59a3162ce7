// An etcd that several rdzvd of the simulation share: the model of it, and the way there, on which
// requests and answers are late or lost. A write of which the answer was lost may have happened, or
// happen later.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "rendezvous/etcd/leadership.hpp"
#include "tests/sim/world.hpp"
#include "tests/unit/rendezvous/etcd/model_etcd.hpp"

namespace ddprun::sim {

class SimEtcd {
 public:
  static constexpr const char* kPrefix = "rdzv";

  explicit SimEtcd(World& world) : world_(world), keys_(kPrefix) {}

  /// Asks what `what` does with the model, and gives `then` the answer once, within `limit`.
  /// `is_cut`: whether the asker is cut off from etcd, now or when the answer comes.
  template <class Answer>
  void ask(std::function<bool()> is_cut,
           std::function<rdzv::EtcdResult<Answer>(test::ModelEtcd&)> what, rdzv::Etcd::Limit limit,
           std::function<void(rdzv::EtcdResult<Answer>)> then) {
    auto call = std::make_shared<Call<Answer>>(std::move(is_cut), std::move(what), std::move(then));
    const bool is_lost = loses_ && world_.one_in(8);
    call->loses_answer = loses_ && world_.one_in(4);
    world_.after(limit, [call] { call->answer(no_answer()); });
    if (!is_lost) world_.after(draw_delay(), [this, call] { arrived(call); });
  }

  /// A leader's write: `leader` is the create_revision of the key that it had.
  rdzv::EtcdResult<rdzv::EtcdTxnAnswer> write(const rdzv::EtcdTxn& txn, rdzv::EtcdRevision leader);
  /// The create_revision of the leader's key as it is; 0: there is none.
  [[nodiscard]] rdzv::EtcdRevision leader_revision();

  /// From now on the clocks of its members run too fast or too slowly, each by an error of its own:
  /// leases end up to 8 % early, which the leaders' margin covers, or up to 40 % late.
  void set_clocks_wrong();
  /// No member answers for a time; what it has stays, and leases may last longer by it.
  void go_away(Duration lasts);
  /// Calls take up to some seconds, more than what is waited for.
  void be_slow(Duration lasts);
  /// Requests are lost, and more often answers.
  void lose(Duration lasts);
  void heal();

  /// What was written that must not be. Empty: nothing.
  [[nodiscard]] const std::string& broken() const { return broken_; }

 private:
  template <class Answer>
  struct Call {
    Call(std::function<bool()> a_is_cut,
         std::function<rdzv::EtcdResult<Answer>(test::ModelEtcd&)> a_what,
         std::function<void(rdzv::EtcdResult<Answer>)> a_then)
        : is_cut(std::move(a_is_cut)), what(std::move(a_what)), then(std::move(a_then)) {}
    void answer(rdzv::EtcdResult<Answer> with) {
      if (auto taker = std::exchange(then, nullptr)) taker(std::move(with));
    }
    std::function<bool()> is_cut;
    std::function<rdzv::EtcdResult<Answer>(test::ModelEtcd&)> what;
    std::function<void(rdzv::EtcdResult<Answer>)> then;  // empty: it was answered
    bool loses_answer = false;
  };

  [[nodiscard]] static rdzv::EtcdFault no_answer() {
    return {rdzv::EtcdFault::Kind::unreachable, "no answer"};
  }

  template <class Answer>
  void arrived(const std::shared_ptr<Call<Answer>>& call) {
    // Some ways to fail are known at once: nothing listens there.
    if (is_away_ && is_refusing_) return call->answer(no_answer());
    if (is_away_ || call->is_cut()) return;
    const rdzv::EtcdResult<Answer> answer = call->what(model());
    if (call->loses_answer) return;
    world_.after(draw_delay(), [call, answer] {
      if (!call->is_cut()) call->answer(answer);
    });
  }

  void choose_leading_member();
  [[nodiscard]] Duration draw_delay();
  [[nodiscard]] test::ModelEtcd& model();
  void come_back();

  World& world_;
  const rdzv::EtcdKeys keys_;
  test::ModelEtcd model_;
  bool are_clocks_wrong_ = false;
  bool is_away_ = false;
  bool is_refusing_ = false;
  bool is_slow_ = false;
  bool loses_ = false;
  std::string broken_;
};

}  // namespace ddprun::sim
