// The agent's process from its start to its end.
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <utility>

#include "agent/agent.hpp"
#include "agent/control/agent_loop.hpp"

namespace ddprun::agent {

void run_agent(const AgentConfig& config, const machine::UserState& user, warden::WardenLink link,
               std::optional<machine::Ancestor> scheduler,
               const std::function<int(const AgentResult&)>& conclude) {
  const int socket = link.socket();
  Agent agent(config, user, std::move(link), std::move(scheduler));
  const AgentResult& result = agent.run();
  // From here on there is nothing to clean up, and no thread listens to the earlier signal.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  char nothing = 0;
  if (recv(socket, &nothing, 1, MSG_PEEK | MSG_DONTWAIT) == 0) _exit(128 + SIGKILL);
  const int code = conclude(result);
  agent.linger();
  std::fflush(nullptr);
  // Not through the destructors: the kernel ends threads and closes descriptors faster than we join
  // them, and the static objects are the warden's copies.
  _exit(code);
}

}  // namespace ddprun::agent
