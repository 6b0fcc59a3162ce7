// The bodies of etcd's JSON gateway (HTTP POST to /v3/...): keys and values in base64, numbers as
// strings, what is false or 0 left out. Pure. Reading takes any bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/etcd/etcd.hpp"
#include "rendezvous/etcd/etcd_access.hpp"

namespace ddprun::rdzv {

/// No answer that is read is longer.
inline constexpr std::size_t kEtcdAnswerBytesMax = std::size_t{8} << 20;

std::string base64_of(std::string_view bytes);
/// None: it is no base64, or its padding is missing or not zero.
std::optional<std::string> base64_decoded(std::string_view text);

std::string etcd_range_body(const EtcdQuery& query);
std::string etcd_txn_body(const EtcdTxn& txn);
std::string etcd_grant_body(std::chrono::seconds ttl);
/// The body of a keep-alive or a revocation.
std::string etcd_lease_body(EtcdLease lease);
std::string etcd_compact_body(EtcdRevision revision);
std::string etcd_login_body(const std::string& user, const std::string& password);

// Answers with HTTP status 200. What is none of them is the fault `refused`.
EtcdResult<EtcdPage> read_etcd_page(std::string_view body);
/// `reads`: how many keys were asked for in read_otherwise.
EtcdResult<EtcdTxnAnswer> read_etcd_txn(std::string_view body, std::size_t reads);
EtcdResult<EtcdGrant> read_etcd_grant(std::string_view body);
EtcdResult<std::chrono::seconds> read_etcd_keep_alive(std::string_view body);
/// The token that a login gives; it can stand in the head of an HTTP request.
EtcdResult<std::string> read_etcd_token(std::string_view body);

/// Any other status. `member`: HOST:PORT, for people.
EtcdFault etcd_fault_of(unsigned status, std::string_view body, std::string_view member,
                        const EtcdWords& words);
/// Whether it may be of that member alone: another one may answer.
bool is_of_member(const EtcdFault& fault);

}  // namespace ddprun::rdzv
