// Between Beast's messages and ours. Internal to src/server.
#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/system/error_code.hpp>
#include <optional>
#include <string>

#include "server/access.h"
#include "server/router.h"
#include "server/url.h"

namespace probing::server {

using RawRequest = boost::beast::http::request<boost::beast::http::string_body>;
using RawResponse = boost::beast::http::response<boost::beast::http::string_body>;

// What Access decides by, except for what the route says; the body need not be there yet.
RequestHead HeadOf(const RawRequest& raw);

// "/?ticket=…" of a one-time link.
std::optional<std::string> TicketOf(const RequestHead& head, const Url& url);

// kUsage when the body is not a JSON object.
Result<Request> Translate(const RawRequest& raw, Url url);

// With the headers that keep browsers from doing anything but what the page is for.
RawResponse ToResponse(Content content, unsigned version, bool keep_alive);
std::string EventStreamHead();

// What to tell somebody whose request could not be read; nothing when nobody is there any more.
std::optional<Content> ComplaintAbout(boost::system::error_code error);

}  // namespace probing::server
