// Traces as OpenTelemetry spans. `@opentelemetry/api` is needed here and nowhere else.

export type { OtelTraceOptions } from "./trace/otel.ts";
export { otelTrace } from "./trace/otel.ts";
