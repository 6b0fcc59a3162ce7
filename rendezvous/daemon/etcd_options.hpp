// The options of rdzvd for a journal in etcd, and how it gets in there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/etcd/etcd_access.hpp"
#include "rendezvous/etcd/etcd_url.hpp"
#include "texts/cli/command_line.hpp"

namespace ddprun::rdzv {

struct EtcdTexts {
  std::optional<std::string> journal;
  std::optional<std::string> ca;
  std::optional<std::string> cert;
  std::optional<std::string> key;
  std::optional<std::string> user;
  std::optional<std::string> password_file;
};

void add_etcd_options(CommandLine& line, EtcdTexts& texts);

/// None: no journal in etcd is wanted. Reads the files, and adds what there is to warn of. Throws
/// UsageError.
std::optional<EtcdPlace> etcd_place(const EtcdTexts& texts, EtcdAccess& access,
                                    std::vector<std::string>& warnings);

}  // namespace ddprun::rdzv
