// The rendezvous service on a thread of its own: sockets and a clock around the pure ServiceCore.
//
// It shares its port with a store: the first five bytes of a connection tell which of the two it is
// for (proto/frame.hpp, opening_of).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_handle.hpp"
#include "proto/encryption.hpp"
#include "rendezvous/service/journal.hpp"
#include "rendezvous/service/newcomers.hpp"
#include "rendezvous/service/secret_folder.hpp"
#include "rendezvous/service/service_core.hpp"
#include "rendezvous/store/store_server.hpp"

namespace ddprun::rdzv {

struct ServiceServerSettings {
  ServiceSettings service;
  std::string secret;  ///< all clients must prove it; empty: none
  /// Shows it to clients of our user (proto/credentials.hpp). Empty: to none.
  std::string credential;
  /// In its place: one for each tenant, of which a client must prove the one for its run id. None:
  /// there is one tenant. Goes with `service.tenant_limits`.
  std::optional<SecretFolder> secrets;
  /// Connections through a network must be encrypted by it. Null: none may be.
  std::shared_ptr<const proto::Encrypter> encrypter;
  /// What happens to jobs is durable there before anybody is told of it, and the jobs that it holds
  /// go on. Null: they end with the server. Used by no other thread.
  std::shared_ptr<Journal> journal;
  /// This service is a standby: it has no jobs, and this is its answer to everybody that has proven
  /// the secret. Called on its thread. Empty: it is none.
  std::function<proto::Refused()> standby;
  /// Without a journal: the folder, in memory, of the RunningFile by which the next service learns
  /// that this one was killed. Empty: it leaves none, and looks for none.
  std::string running_folder;

  std::size_t connections_max = 100'000;
  Newcomers::Limits newcomers;  ///< connections without a session; more wait in the kernel
  bool has_few_files = false;   ///< so their places are few; one line says so when all are taken
  /// Hellos and proof; then, without a session, each message.
  std::chrono::milliseconds open_within{5'000};
  /// One that says nothing at all is taken for a store's client after that: PyTorch 1.13 has such.
  std::chrono::milliseconds silent_within{10'000};
  /// Without a secret: close loopback connections of other users than our own, root and
  /// `allowed_uids`.
  bool check_uid = true;
  std::vector<uid_t> allowed_uids;

  /// Gets a connection that begins with other bytes than ours, nothing read. Called on the
  /// service's thread. Empty: it is closed, with one line.
  std::function<void(UniqueFd)> on_store_client;
  /// A line for the people at the service; called on its thread. Empty: to spdlog.
  std::function<void(const std::string&)> on_warning;
  /// A line about what jobs and agents do; called on the service's thread. Empty: to spdlog.
  std::function<void(const std::string&)> on_info;
};

class ServiceServer {
 public:
  /// A listener without a descriptor: all connections are adopted.
  /// Errors: the system's, where there is no descriptor or no thread left.
  static Result<ServiceServer> start(StoreListener listener, ServiceServerSettings settings);
  ServiceServer(ServiceServer&&) noexcept;
  /// As end().
  ~ServiceServer();
  ServiceServer(const ServiceServer&) = delete;
  ServiceServer& operator=(const ServiceServer&) = delete;

  /// Resets every connection: this process's end proves nothing about the nodes. What this server
  /// was is still told, and changes no more.
  void end();

  [[nodiscard]] const std::string& addr() const;
  [[nodiscard]] std::uint16_t port() const;
  /// A connection to this server without a network. Errors: the system's.
  Result<UniqueFd> connect_locally();
  /// From any thread: serves a connected TCP socket, nothing read, as if it had been accepted.
  /// Those over newcomers.places wait their turn, those over connections_max are closed with one
  /// line.
  void adopt(UniqueFd connection);
  /// From any thread: nothing of the job is left on the node of this name (NodeGone).
  void node_gone(std::string run_id, std::string node);
  /// Connections that are open now: those of agents. From any thread.
  [[nodiscard]] std::size_t agents() const;
  /// Whether all agents of all jobs know how their job ended. From any thread.
  [[nodiscard]] bool is_idle() const;
  /// As ServiceCore's. From any thread.
  [[nodiscard]] bool has_sessions() const;
  [[nodiscard]] bool is_ending() const;

 private:
  class Impl;
  explicit ServiceServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::rdzv
