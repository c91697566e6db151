// KfdNode: /dev/kfd.
//
// Owner: Machine. Units: none. Errors: EINVAL from open when there is no GPU, on newer kernels.
// Thread-safety: all methods from any thread. Mirrors: amdkfd/kfd_chardev.c: kfd_open.
#pragma once

#include <memory>
#include <string>

#include "sim/core/file.h"
#include "sim/kfd/kfd_driver.h"

namespace understudy::kfd {

class KfdNode : public Node {
 public:
  explicit KfdNode(std::shared_ptr<KfdDriver> driver) : driver_(std::move(driver)) {}

  const std::shared_ptr<KfdDriver>& driver() const { return driver_; }
  std::string path() const override { return "kfd"; }
  dev_t device_number() const override;
  Result<FileRef> open(const Caller& caller, int open_flags) override;

 private:
  const std::shared_ptr<KfdDriver> driver_;
};

}  // namespace understudy::kfd
