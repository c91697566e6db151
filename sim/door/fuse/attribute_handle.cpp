#include "sim/door/fuse/attribute_handle.h"

#include <algorithm>

namespace understudy::door {

void AttributeHandle::read(fuse_req_t request, std::size_t size, off_t offset, bool) {
  const std::lock_guard lock(mutex_);
  if (offset == 0) {
    Result<std::string> content = SysfsTree::read(*entry_);
    if (!content) {
      ::fuse_reply_err(request, content.error().number());
      return;
    }
    content_ = std::move(content).value();
  }
  const std::size_t begin = std::min(static_cast<std::size_t>(offset), content_.size());
  ::fuse_reply_buf(request, content_.data() + begin, std::min(size, content_.size() - begin));
}

void AttributeHandle::write(fuse_req_t request, std::span<const std::byte> bytes, off_t) {
  const auto& attribute = std::get<SysfsTree::Attribute>(entry_->what);
  // As for an attribute without a store method.
  Result<void> stored = Errno(EIO);
  if (attribute.store)
    stored = attribute.store(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  if (stored) {
    ::fuse_reply_write(request, bytes.size());
  } else {
    ::fuse_reply_err(request, stored.error().number());
  }
}

void DirectoryHandle::list(fuse_req_t request, std::size_t size, off_t offset) {
  std::vector<char> buffer(size);
  std::size_t used = 0;
  for (std::size_t i = static_cast<std::size_t>(offset); i < entries_.size(); ++i) {
    const std::size_t bytes =
        ::fuse_add_direntry(request, buffer.data() + used, size - used, entries_[i].name.c_str(),
                            &entries_[i].attributes, static_cast<off_t>(i + 1));
    if (bytes > size - used) break;
    used += bytes;
  }
  ::fuse_reply_buf(request, buffer.data(), used);
}

}  // namespace understudy::door
