// HTTP/1.1 with one member of etcd, plain or encrypted, by Boost.Beast. Every wait has a deadline.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/endpoint.hpp"
#include "base/result.hpp"
#include "proto/encryption.hpp"
#include "rendezvous/etcd/etcd.hpp"
#include "rendezvous/etcd/etcd_access.hpp"

namespace ddprun::rdzv {

/// After a failure it is of no more use.
class EtcdConnection {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;
  struct Request {
    const char* path = "";
    std::string body;   ///< JSON
    std::string token;  ///< of a user; empty: none
  };
  struct Answer {
    unsigned status = 0;
    std::string body;
  };

  /// Both are borrowed.
  EtcdConnection(const std::function<bool()>& is_cancelled, const EtcdAccess& access);
  ~EtcdConnection();
  EtcdConnection(const EtcdConnection&) = delete;
  EtcdConnection& operator=(const EtcdConnection&) = delete;

  ErrorCode open(const Endpoint& member, SteadyTime deadline);
  Result<Answer> post(const Request& request, SteadyTime deadline);

  /// What an error of a call means, for people.
  [[nodiscard]] EtcdFault fault_of(const ErrorCode& error) const;
  /// Whether the last answer leaves it open.
  [[nodiscard]] bool is_reusable() const { return is_reusable_; }
  /// Our end of it, numeric. Empty: there is none.
  [[nodiscard]] std::string local_addr() const;

 private:
  struct Socket;

  template <class Begin>
  ErrorCode wait(SteadyTime deadline, Begin begin);
  ErrorCode send(std::string bytes, SteadyTime deadline);
  ErrorCode receive(SteadyTime deadline);

  const std::function<bool()>& is_cancelled_;
  const EtcdAccess& access_;
  const std::unique_ptr<Socket> socket_;
  std::unique_ptr<proto::Encryption> encryption_;  // null: plain
  std::string received_;                           // plain text that was not read yet
  std::string member_;                             // HOST:PORT
  bool is_reusable_ = true;
  bool has_received_ = false;  // anything
};

}  // namespace ddprun::rdzv
