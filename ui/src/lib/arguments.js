// Arguments and settings that queues, exchanges, policies and messages may have: [name, type, in a few words]. Refuses to know forms.

const LIMITS = [
  ["message-ttl", "number", "Messages expire after so many milliseconds"],
  ["expires", "number", "The queue is deleted after so many milliseconds without use"],
  ["max-length", "number", "At most so many ready messages"],
  ["max-length-bytes", "number", "At most so many bytes in bodies of ready messages"],
  ["overflow", "string", "When it is full: drop-head, reject-publish or reject-publish-dlx"],
  ["dead-letter-exchange", "string", "Rejected, expired and dropped messages go to this exchange"],
  ["dead-letter-routing-key", "string", "The routing key for these messages; without it they keep their own"],
];
const argument = ([name, type, about]) => [`x-${name}`, type, about];

export const QUEUE = [
  ...LIMITS.map(argument),
  ["x-single-active-consumer", "boolean", "One consumer at a time; the next takes over when it goes"],
  ["x-max-priority", "number", "Messages have priorities from 0 to this; 1 to 10 make sense"],
  ["x-message-deduplication", "boolean", "A message whose x-deduplication-header is in the queue already is dropped"],
];

export const EXCHANGE = [
  ["alternate-exchange", "string", "Messages that match no binding go to this exchange"],
  ["x-delayed-type", "string", "x-delayed-message: how it routes when the delay is over, as direct or topic"],
  ["hash-header", "string", "x-consistent-hash: hash this header and not the routing key"],
  ["hash-property", "string", "x-consistent-hash: hash this property: message_id, correlation_id or timestamp"],
  ["x-recent-history-length", "number", "x-recent-history: how many messages a new binding gets"],
  ["x-cache-size", "number", "x-message-deduplication: how many messages it remembers"],
  ["x-cache-ttl", "number", "x-message-deduplication: for how many milliseconds"],
];

export const POLICY = [
  ...LIMITS,
  ["alternate-exchange", "string", "Exchanges: messages that match no binding go to this one"],
  ["delivery-limit", "number", "After so many deliveries a message is dropped or dead-lettered"],
  ["consumer-timeout", "number", "A consumer that has not acknowledged for so many milliseconds loses its channel"],
];
const OPERATORS = ["message-ttl", "expires", "max-length", "max-length-bytes", "overflow", "delivery-limit"];
export const OPERATOR_POLICY = POLICY.filter(([name]) => OPERATORS.includes(name));

export const BINDING = [["x-match", "string", "Headers exchanges: all, any, all-with-x or any-with-x of the other arguments must match"]];

export const HEADERS = [
  ["x-delay", "number", "x-delayed-message: wait for so many milliseconds"],
  ["x-deduplication-header", "string", "Drop it if one with the same value was here before"],
  ["CC", "list", "More routing keys"],
];

export const PROPERTIES = [
  ["content_type", "string", "As application/json"], ["content_encoding", "string", "As gzip"], ["priority", "number", "0 to 255"], ["correlation_id", "string", "Which request this answers"],
  ["reply_to", "string", "Where answers go"], ["expiration", "string", "Milliseconds that it may wait"], ["message_id", "string", "The application's name for it"], ["timestamp", "number", "Seconds since 1970"],
  ["type", "string", "The kind of message"], ["user_id", "string", "Must be the user that publishes"], ["app_id", "string", "Which application sent it"],
];
