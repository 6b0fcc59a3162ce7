#include "agent/link/service_host.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "base/no_descriptor.hpp"
#include "base/start_thread.hpp"
#include "rendezvous/service/running_file.hpp"
#include "rendezvous/store/port_owner.hpp"

namespace ddprun::agent {
namespace {

/// The name of the program in what port_owner says: "/usr/bin/rdzvd --listen=..., pid 4242".
std::string program_in(const std::string& owner) {
  const std::string path = owner.substr(0, owner.find_first_of(" ,"));
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

boost::system::result<OwnSecret, std::string> own_secret(const RendezvousSettings& settings) {
  if (!settings.makes_secret) return OwnSecret{settings.secret, ""};
  auto made = proto::new_shown_secret(*settings.credentials);
  if (made) return OwnSecret{std::move(made->secret), std::move(made->credential)};
  if (settings.needs_proof)
    return {boost::system::in_place_error, "--rdzv-auth=munge: " + made.error().reason};
  spdlog::info("nodes do not prove their user to the rendezvous: {}", made.error().reason);
  return OwnSecret{};
}

void warn_of_no_secret(const std::string& place) {
  spdlog::warn(
      "this job has no secret: anybody who can connect to {} can join or stop it; type ddprun "
      "--make-secret and copy the file to each node",
      place);
}

rdzv::ServiceServerSettings agent_service_settings(boost::asio::io_context& context,
                                                   const AgentConfig& config,
                                                   const OwnSecret& secret,
                                                   std::size_t newcomers_max) {
  rdzv::ServiceServerSettings settings;
  settings.service.only_run_id = config.run_id;
  settings.service.lease = config.rendezvous->lease;
  settings.secret = secret.secret;
  settings.credential = secret.credential;
  settings.encrypter = config.rendezvous->encrypter;
  rdzv::Newcomers::Limits& newcomers = settings.newcomers;
  settings.has_few_files = newcomers_max < newcomers.places;
  newcomers.places = std::min(newcomers.places, newcomers_max);
  newcomers.places_per_addr =
      std::clamp<std::size_t>(newcomers.places / 4, 1, newcomers.places_per_addr);
  settings.check_uid = !config.store.users.any;
  settings.allowed_uids.assign(config.store.users.uids.begin(), config.store.users.uids.end());
  settings.on_warning = [&context](const std::string& line) {
    boost::asio::post(context, [line] { spdlog::warn("{}", line); });
  };
  return settings;
}

ServiceHost::ServiceHost(boost::asio::io_context& context, const AgentConfig& config, Events events)
    : context_(context),
      config_(config),
      settings_(*config.rendezvous),
      events_(std::move(events)),
      endpoint_(settings_.endpoint) {}

void ServiceHost::look(const std::vector<std::string>& addresses) {
  if (has_failed_) return;
  is_port_taken_ = false;
  const auto choice = rdzv::choose_host(settings_.hosting, settings_.endpoint.host, addresses,
                                        rdzv::interface_addresses());
  std::string why = choice.why;
  if (choice.here) {
    listen(choice);
    if (is_port_taken_) why += ", but another program has the port";
  }
  if (std::exchange(why_, why) == why) return;
  spdlog::info("the rendezvous at {} is {}: {}", to_string(endpoint_),
               server_ ? "here" : "not here", why);
}

void ServiceHost::listen(const rdzv::HostingChoice& choice) {
  std::vector<std::uint16_t> ports{*settings_.endpoint.port};
  ports.insert(ports.end(), settings_.more_ports.begin(), settings_.more_ports.end());
  ErrorCode error;
  for (const std::uint16_t port : ports) {
    auto listener = rdzv::listen_store(choice.listen_addr, port);
    if (listener) {
      if (choice.is_foreign) events_.notice("the rendezvous is here: " + choice.why);
      endpoint_.port = port;
      listen_addr_ = choice.listen_addr;
      public_addr_ = choice.public_addr.empty() ? choice.listen_addr : choice.public_addr;
      const std::string problem = serve(std::move(*listener));
      return problem.empty() ? warn_of_no_secret() : fail(problem);
    }
    error = listener.error();
    if (error.value() != EADDRINUSE) break;
  }
  // Another agent of this machine, most likely.
  is_port_taken_ = error.value() == EADDRINUSE;
  if (is_port_taken_ && settings_.hosting == rdzv::HostingWish::automatic) return;
  fail_to_listen(choice.listen_addr, error);
}

void ServiceHost::fail_to_listen(const std::string& addr, const ErrorCode& error) {
  const std::string owner = port_user();
  std::string remedy = "choose another port";
  const std::string program = program_in(owner);
  if (!settings_.more_ports.empty()) {
    remedy = "choose another one with --rdzv-endpoint=HOST:PORT, or others with --port-range";
  } else if (program == "rdzvd") {
    remedy = settings_.insists_on_rank ? "add --rdzv-backend=c10d to use the rdzvd there"
                                       : "leave out is_host=1 to use the rdzvd there";
  } else if (settings_.insists_on_rank && program.starts_with("ddprun")) {
    remedy =
        "each node needs its own --node-rank (the default is 0), or --rdzv-backend=c10d gives "
        "ranks";
  }
  const std::string more =
      settings_.more_ports.empty() ? "" : fmt::format(" to {}", settings_.more_ports.back());
  fail(fmt::format("the rendezvous cannot listen on {} port {}{}: {}{}; {}", addr,
                   *settings_.endpoint.port, more, why_no_descriptor(error),
                   owner.empty() ? "" : fmt::format(" ({} has it)", owner), remedy));
}

/// Not empty: why it is not served.
std::string ServiceHost::serve(rdzv::StoreListener listener) {
  if (settings_.encrypter && !settings_.encrypter->why_no_service().empty())
    return "this node runs the rendezvous, and " + settings_.encrypter->why_no_service();
  if (!secret_) {
    auto made = own_secret(settings_);
    if (!made) return made.error();
    secret_ = std::move(*made);
  }
  rdzv::ServiceServerSettings settings =
      agent_service_settings(context_, config_, *secret_, newcomers_max_);
  settings.running_folder = rdzv::RunningFile::kFolder;
  settings.on_store_client = events_.on_store_client;
  auto server = rdzv::ServiceServer::start(std::move(listener), std::move(settings));
  if (!server) {
    const bool thread = server.error().value() == EAGAIN;
    return "the rendezvous cannot be served: " +
           (thread ? why_no_thread(server.error()) : why_no_descriptor(server.error()));
  }
  server_.emplace(std::move(*server));
  return "";
}

std::string ServiceHost::kill_and_restart() {
  const std::uint16_t port = server_->port();
  server_.reset();
  auto listener = rdzv::listen_store(listen_addr_, port);
  if (listener) return serve(std::move(*listener));
  return fmt::format("the rendezvous cannot listen again on {} port {}: {}", listen_addr_, port,
                     why_no_descriptor(listener.error()));
}

void ServiceHost::warn_of_no_secret() const {
  const bool knows_clients = settings_.encrypter && settings_.encrypter->checks_clients();
  if (secret_->secret.empty() && !knows_clients && !is_loopback(listen_addr_)) {
    ddprun::agent::warn_of_no_secret(to_string(endpoint_));
  }
}

std::string ServiceHost::port_user() const {
  return is_port_taken_ ? rdzv::port_owner(*settings_.endpoint.port).value_or("") : "";
}

std::string ServiceHost::why_elsewhere() const {
  if (server_ || why_.empty()) return "";
  const bool by_address = settings_.hosting == rdzv::HostingWish::automatic && !is_port_taken_;
  return by_address ? why_ + " (--rdzv-conf=is_host=1 puts it here all the same)" : why_;
}

void ServiceHost::fail(const std::string& problem) {
  has_failed_ = true;
  boost::asio::post(context_, [this, problem] { events_.failed(problem); });
}

}  // namespace ddprun::agent
