#include "trainer/run/plan/rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "proto/error.hpp"
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

/// Between two looks whether a key is there or the wait is to be given up. A worker that was kept
/// waits as long as a new one takes to start.
constexpr std::chrono::milliseconds kLookEvery{1};
constexpr std::chrono::milliseconds kLookLaterEvery{20};
constexpr std::chrono::seconds kLookLaterAfter{1};
/// For a try to connect, which may take so long where the network is slow.
constexpr std::chrono::seconds kConnectTry{1};

/// Gives up waiting where that is asked for.
class WaryExchange final : public Exchange {
 public:
  WaryExchange(rdzv::StoreClient& client, std::function<bool()> is_given_up)
      : client_(client), is_given_up_(std::move(is_given_up)) {}

  Result<void> set(const std::string& key, const std::string& value,
                   Clock::time_point deadline) override {
    return client_.set(key, value, deadline);
  }
  Result<std::string> get(const std::string& key, Clock::time_point deadline) override {
    const auto began = Clock::now();
    while (true) {
      const Result<bool> is_there = client_.check(std::span(&key, 1), deadline);
      if (!is_there) return is_there.error();
      if (*is_there) return client_.get(key, deadline);
      const auto now = Clock::now();
      if (now >= deadline) return make_error_code(proto::Errc::timed_out);
      if (is_given_up_()) return make_error_code(boost::system::errc::operation_canceled);
      std::this_thread::sleep_for(now - began < kLookLaterAfter ? kLookEvery : kLookLaterEvery);
    }
  }

 private:
  rdzv::StoreClient& client_;
  std::function<bool()> is_given_up_;
};

}  // namespace

/// The store's client, and the server where rank 0 hosts it.
class Rendezvous::Connection {
 public:
  Connection(const WorkerEnvironment& environment, std::chrono::nanoseconds timeout,
             Clock::time_point deadline, const std::function<bool()>& is_given_up) {
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
    const auto connect = [&](Clock::time_point until) {
      return rdzv::StoreClient::connect(environment.master_addr, environment.master_port, until);
    };
    auto client = connect(is_given_up ? std::min(deadline, Clock::now() + kConnectTry) : deadline);
    while (!client && client.error() == proto::Errc::timed_out && is_given_up && !is_given_up() &&
           Clock::now() < deadline)
      client = connect(std::min(deadline, Clock::now() + kConnectTry));
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

Rendezvous::Rendezvous(const WorkerEnvironment& environment, std::chrono::nanoseconds timeout,
                       std::function<bool()> is_given_up)
    : environment_(environment),
      timeout_(timeout),
      deadline_(Clock::now() + timeout),
      // A store may outlive a round (torchrun's does): no key of one round is ever met in the next.
      group_(fmt::format("train/{}.{}", environment.restart_count, environment.round)) {
  if (environment.world_size == 1) return;
  connection_ = std::make_unique<Connection>(environment_, timeout_, deadline_, is_given_up);
  if (is_given_up) {
    exchange_ = std::make_unique<WaryExchange>(connection_->client(), std::move(is_given_up));
  } else {
    exchange_ = std::make_unique<StoreExchange>(connection_->client());
  }
}

Rendezvous::~Rendezvous() = default;

AgreedShards Rendezvous::agree_on_shards(int shards_of_root, bool has_gpu,
                                         const std::string& why_no_gpu, int root) {
  if (!exchange_) return {.shards = shards_of_root, .result = {}};
  const std::string key = group_ + "/shards";
  if (environment_.rank == root) {
    const auto done = exchange_->set(
        key, fmt::format("{}{}", shards_of_root, has_gpu ? kOnGpu : kOnCpu), deadline_);
    if (!done)
      throw DataError(fmt::format("rank {} cannot store the number of shards at {}:{}: {}", root,
                                  environment_.master_addr, environment_.master_port,
                                  done.error().message()));
    return {.shards = shards_of_root, .result = {}};
  }
  const auto text = exchange_->get(key, deadline_);
  if (!text) {
    CommResult result = exchange_failure(
        text.error(), root, fmt::format("waiting for the number of shards from rank {}", root));
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
    throw DataError(fmt::format(
        "rank {} trains on {}, but rank {} on {}{}: use --device=cpu or --device=cuda "
        "for all ranks of one program",
        environment_.rank, has_gpu ? "a GPU" : "the CPU", root, has_gpu ? "the CPU" : "a GPU",
        why_no_gpu.empty()
            ? ""
            : fmt::format(" (rank {} has no GPU: {})", environment_.rank, why_no_gpu)));
  }
  int shards = 0;
  std::from_chars(text->data(), text->data() + text->size(), shards);
  return {.shards = shards, .result = {}};
}

}  // namespace ddprun::trainer
