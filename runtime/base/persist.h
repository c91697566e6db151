// For destructors and other places that give something back and have nobody to tell when that fails: tries a few times, because
// what the kernel would not take back now it may take in a moment, and otherwise it would be lost for good.
#pragma once

namespace hsa_rt {

template <class GiveBack>
void persist(GiveBack give_back) {
  constexpr int kAttempts = 3;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (give_back()) return;
  }
}

}  // namespace hsa_rt
