#include "agent/control/service_host.hpp"

#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "base/no_descriptor.hpp"
#include "base/start_thread.hpp"
#include "rendezvous/store/port_owner.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kFirstPause = 20ms;
constexpr auto kLongestPause = 1000ms;
constexpr auto kTellAfter = 2s;  // a name that comes sooner is not worth a line

}  // namespace

ServiceHost::ServiceHost(boost::asio::io_context& context, const AgentConfig& config, Events events)
    : context_(context),
      config_(config),
      settings_(*config.rendezvous),
      events_(std::move(events)),
      resolver_(context),
      timer_(context),
      pause_(kFirstPause) {}

void ServiceHost::settle() {
  if (settings_.hosting == rdzv::HostingWish::elsewhere) {
    why_ = "is_host=0, or another --node-rank than 0, leaves it to another node";
    return settled("");
  }
  look_up();
}

void ServiceHost::look_up() {
  const ErrorCode failed =
      resolver_.look_up(settings_.endpoint.host, *settings_.endpoint.port,
                        [this](Result<rdzv::Addresses> found) { take(std::move(found)); });
  if (failed) settled("the rendezvous's host cannot be looked up: " + why_no_thread(failed));
}

void ServiceHost::take(Result<rdzv::Addresses> addresses) {
  if (!addresses) return try_again(addresses.error().message());
  std::vector<std::string> resolved;
  for (const addrinfo* one = addresses->get(); one != nullptr; one = one->ai_next)
    resolved.push_back(rdzv::numeric_host(*one));
  const auto choice = rdzv::choose_host(settings_.hosting, settings_.endpoint.host, resolved,
                                        rdzv::interface_addresses());
  why_ = choice.why;
  if (choice.is_foreign) events_.tell("the rendezvous is here: " + choice.why);
  if (choice.here) return listen(choice);
  settled("");
}

/// The name of a pod often appears after its containers run.
void ServiceHost::try_again(const std::string& trouble) {
  const auto now = Clock::now();
  const auto deadline = began_at_ + config_.job.join_timeout;
  const std::string line =
      fmt::format("cannot look up {}, the rendezvous's host: {}", settings_.endpoint.host, trouble);
  if (now >= deadline) return settled(line);
  if (line != told_ && now >= began_at_ + kTellAfter) {
    told_ = line;
    const auto left = std::chrono::ceil<std::chrono::seconds>(deadline - now).count();
    events_.tell(fmt::format("{}; trying for {} s", line, left));
  }
  timer_.expires_after(pause_);
  pause_ = std::min<std::chrono::milliseconds>(2 * pause_, kLongestPause);
  timer_.async_wait([this](ErrorCode ec) {
    if (!ec) look_up();
  });
}

void ServiceHost::listen(const rdzv::HostingChoice& choice) {
  const std::uint16_t port = *settings_.endpoint.port;
  auto listener = rdzv::listen_store(choice.listen_addr, port);
  if (listener) {
    listen_addr_ = choice.listen_addr;
    public_addr_ = choice.public_addr.empty() ? choice.listen_addr : choice.public_addr;
    return serve(std::move(*listener));
  }
  const int error = listener.error().value();
  const auto owner = error == EADDRINUSE ? rdzv::port_owner(port) : std::nullopt;
  if (error == EADDRINUSE && settings_.hosting == rdzv::HostingWish::automatic) {
    // Another agent of this machine, most likely.
    port_user_ = owner.value_or("");
    why_ += fmt::format(", and {} has port {} there", owner.value_or("another program"), port);
    return settled("");
  }
  std::string remedy = "choose another port";
  if (settings_.insists_on_rank && owner && owner->starts_with("ddprun"))
    remedy = "is --node-rank=0 given on two nodes?";
  settled(fmt::format("the rendezvous cannot listen on {} port {}: {}{}; {}", choice.listen_addr,
                      port, why_no_descriptor(listener.error()),
                      owner ? fmt::format(" ({} has it)", *owner) : "", remedy));
}

void ServiceHost::serve(rdzv::StoreListener listener) {
  rdzv::ServiceServerSettings settings;
  settings.service.only_run_id = config_.run_id;
  settings.service.lease = settings_.lease;
  settings.secret = settings_.secret;
  settings.check_uid = !config_.store_users.any;
  settings.allowed_uids.assign(config_.store_users.uids.begin(), config_.store_users.uids.end());
  settings.on_store_client = events_.on_store_client;
  settings.on_warning = [&context = context_](const std::string& line) {
    boost::asio::post(context, [line] { spdlog::warn("{}", line); });
  };
  auto server = rdzv::ServiceServer::start(std::move(listener), std::move(settings));
  if (!server) {
    const bool thread = server.error().value() == EAGAIN;
    return settled("the rendezvous cannot be served: " +
                   (thread ? why_no_thread(server.error()) : why_no_descriptor(server.error())));
  }
  server_.emplace(std::move(*server));
  if (settings_.secret.empty() && !is_loopback(listen_addr_)) {
    spdlog::warn(
        "anybody who can connect to {} can join this job or stop it, because it has no secret; "
        "make one with ddprun --make-secret and copy it to each node",
        to_string(settings_.endpoint));
  }
  settled("");
}

void ServiceHost::settled(const std::string& problem) {
  spdlog::info("the rendezvous at {} is {}: {}", to_string(settings_.endpoint),
               server_ ? "here" : "not here", why_);
  boost::asio::post(context_, [this, problem] { events_.settled(problem); });
}

}  // namespace ddprun::agent
