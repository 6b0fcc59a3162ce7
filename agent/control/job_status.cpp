#include "agent/control/job_status.hpp"

#include <nlohmann/json.hpp>

#include "base/json_text.hpp"

namespace ddprun::agent {

std::string job_status(const std::string& run_id, const NodeMachine& machine) {
  nlohmann::json workers = nlohmann::json::array();
  const NodeRound* round = machine.round();
  if (round != nullptr) {
    int local_rank = 0;
    for (const WorkerRecord& worker : round->group.workers()) {
      workers.push_back({{"rank", round->round.first_rank + local_rank++},
                         {"pid", worker.pid},
                         {"running", worker.running()}});
    }
  }
  return json_text(nlohmann::json{{"run_id", run_id},
                                  {"state", to_string(machine.state())},
                                  {"round", round != nullptr ? round->round.number : 0},
                                  {"restart_count", machine.restart_count()},
                                  {"workers", workers}});
}

}  // namespace ddprun::agent
