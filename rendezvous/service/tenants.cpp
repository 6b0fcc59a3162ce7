#include "rendezvous/service/tenants.hpp"

namespace ddprun::rdzv {

const std::string* Tenants::of(std::string_view run_id) const {
  if (const auto itself = names_.find(run_id); itself != names_.end()) return &*itself;
  const bool is_many = !run_id.empty() && names_many(run_id);
  std::string name(is_many ? common_begin(run_id) : run_id);
  while (true) {
    name.push_back(kAnyEnd);
    if (const auto fits = names_.find(name); fits != names_.end()) return &*fits;
    if (name.size() == 1) return nullptr;
    name.resize(name.size() - 2);
  }
}

}  // namespace ddprun::rdzv
