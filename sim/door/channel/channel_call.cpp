#include "sim/door/channel/channel_call.h"

namespace understudy::door {

ChannelCall::~ChannelCall() {
  if (!finished()) connection_->answer(*this, -EIO);
}

}  // namespace understudy::door
