// The faults of --chaos, brought about in the workers of this node and in its rendezvous.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>

#include "agent/chaos/chaos.hpp"
#include "agent/link/deadline_timer.hpp"
#include "agent/link/node_link.hpp"
#include "agent/node/node_machine.hpp"

namespace ddprun::agent {

class ChaosStrikes {
 public:
  struct Events {
    std::function<void(const std::string& line)> notice;     ///< a line for the user
    std::function<void(const std::string& problem)> failed;  ///< the job cannot go on
  };

  /// The machine and the link are borrowed. `nodes`: null where this node is the only one.
  ChaosStrikes(boost::asio::io_context& context, const ChaosPlan& plan, const NodeMachine& machine,
               NodeLink* nodes, Events events);

  /// To be called when the machine may have another state.
  void follow();
  [[nodiscard]] ChaosSummary summary() const { return chaos_.summary(); }

 private:
  void strike();
  void strike_worker(const ChaosStrike& strike, int local_rank);
  void strike_service(const ChaosStrike& strike);

  boost::asio::io_context& context_;
  const NodeMachine& machine_;
  NodeLink* const nodes_;
  const Events events_;
  Chaos chaos_;
  std::optional<proto::Epoch> epoch_;  // of the round that ran last
  DeadlineTimer timer_;
};

}  // namespace ddprun::agent
