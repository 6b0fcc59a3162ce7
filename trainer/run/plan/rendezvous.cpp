#include "trainer/run/plan/rendezvous.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <utility>

#include "rendezvous/client/store_client.hpp"
#include "rendezvous/store/store_server.hpp"
#include "trainer/comm/exchange.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

// What follows the number of shards.
constexpr const char* kOnGpu = " cuda";
constexpr const char* kOnCpu = " cpu";

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

/// The address to listen on: the loopback where workers are told that, else every one of this
/// machine.
std::string listen_address(const std::string& master_addr) {
  if (master_addr == "localhost" || master_addr.starts_with("127.")) return "127.0.0.1";
  if (master_addr == "::1") return "::1";
  return master_addr.find(':') != std::string::npos ? "::" : "0.0.0.0";
}

}  // namespace

/// The store's client, and the server where rank 0 hosts it.
class Rendezvous::Connection {
 public:
  Connection(const WorkerEnvironment& environment, std::chrono::nanoseconds timeout,
             Clock::time_point deadline) {
    const std::string where =
        fmt::format("{}:{}", environment.master_addr, environment.master_port);
    if (environment.rank == 0 && !environment.agent_store) {
      auto listener =
          rdzv::listen_store(listen_address(environment.master_addr), environment.master_port);
      if (!listener) {
        throw DataError(fmt::format(
            "rank 0 cannot host the store at {} (MASTER_ADDR:MASTER_PORT): {}. Choose a free port, "
            "or set TORCHELASTIC_USE_AGENT_STORE=True if a store already runs there",
            where, listener.error().message()));
      }
      auto server = rdzv::StoreServer::start(std::move(*listener));
      if (!server) {
        throw DataError(
            fmt::format("rank 0 cannot host the store at {} (MASTER_ADDR:MASTER_PORT): {}", where,
                        rdzv::StoreServer::why_not_started(server.error())));
      }
      server_.emplace(std::move(*server));
    }
    auto client =
        rdzv::StoreClient::connect(environment.master_addr, environment.master_port, deadline);
    if (!client) {
      throw DataError(fmt::format(
          "rank {} of {}: no store answered at {} (MASTER_ADDR:MASTER_PORT) within {:g} s: {}. Is "
          "rank 0 running? --rendezvous-timeout sets the time",
          environment.rank, environment.world_size, where, seconds(timeout),
          client.error().message()));
    }
    client_.emplace(std::move(*client));
  }

  rdzv::StoreClient& client() { return *client_; }

 private:
  std::optional<rdzv::StoreServer> server_;  // outlives the client
  std::optional<rdzv::StoreClient> client_;
};

Rendezvous::Rendezvous(const WorkerEnvironment& environment, std::chrono::nanoseconds timeout)
    : environment_(environment),
      timeout_(timeout),
      deadline_(Clock::now() + timeout),
      // A store may outlive a round (torchrun's does): no key of one round is ever met in the next.
      group_(fmt::format("train/{}.{}", environment.restart_count, environment.round)) {
  if (environment.world_size == 1) return;
  connection_ = std::make_unique<Connection>(environment_, timeout_, deadline_);
  exchange_ = std::make_unique<StoreExchange>(connection_->client());
}

Rendezvous::~Rendezvous() = default;

AgreedShards Rendezvous::agree_on_shards(int shards_of_rank_0, bool has_gpu,
                                         const std::string& why_no_gpu) {
  if (!exchange_) return {.shards = shards_of_rank_0, .result = {}};
  const std::string key = group_ + "/shards";
  if (environment_.rank == 0) {
    const auto done = exchange_->set(
        key, fmt::format("{}{}", shards_of_rank_0, has_gpu ? kOnGpu : kOnCpu), deadline_);
    if (!done)
      throw DataError(fmt::format("rank 0 cannot store the number of shards at {}:{}: {}",
                                  environment_.master_addr, environment_.master_port,
                                  done.error().message()));
    return {.shards = shards_of_rank_0, .result = {}};
  }
  const auto text = exchange_->get(key, deadline_);
  if (!text) {
    CommResult result =
        exchange_failure(text.error(), 0, "waiting for the number of shards from rank 0");
    result.detail += fmt::format(
        " Where it reads large files first, --rendezvous-timeout (here {:g} s) sets a longer time",
        seconds(timeout_));
    return {.shards = 0, .result = std::move(result)};
  }
  if (!text->ends_with(has_gpu ? kOnGpu : kOnCpu)) {
    // Where rank 0 looks for this rank: it refuses, too, and does not wait until the deadline.
    static_cast<void>(
        exchange_->set(fmt::format("{}/{}/{}", group_, has_gpu ? "shm" : "nccl", environment_.rank),
                       has_gpu ? "on a GPU" : "on the CPU", deadline_));
    throw DataError(
        fmt::format("rank {} trains on {}, but rank 0 on {}{}: use --device=cpu or --device=cuda "
                    "for all ranks of one program",
                    environment_.rank, has_gpu ? "a GPU" : "the CPU", has_gpu ? "the CPU" : "a GPU",
                    why_no_gpu.empty()
                        ? ""
                        : fmt::format(" (rank {} has no GPU: {})", environment_.rank, why_no_gpu)));
  }
  int shards = 0;
  std::from_chars(text->data(), text->data() + text->size(), shards);
  return {.shards = shards, .result = {}};
}

}  // namespace ddprun::trainer
