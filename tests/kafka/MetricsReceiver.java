import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileWriter;
import java.io.Writer;
import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.apache.kafka.shaded.io.opentelemetry.proto.common.v1.KeyValue;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.Metric;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.NumberDataPoint;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ResourceMetrics;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ScopeMetrics;

/** A plugin of a broker: writes the metrics of clients to a file, a push per line, as JSON. */
public class MetricsReceiver implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private String file;

    @Override
    public void configure(Map<String, ?> settings) {
        file = String.valueOf(settings.get("tests.metrics.file"));
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return this;
    }

    @Override
    public synchronized void exportMetrics(
            AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        try (Writer out = new FileWriter(file, true)) {
            out.write(JSON.writeValueAsString(read(context, payload)) + "\n");
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }

    private static Map<String, Object> read(
            AuthorizableRequestContext context, ClientTelemetryPayload payload) throws Exception {
        Map<String, Object> push = new LinkedHashMap<>();
        push.put("client", context.clientId());
        push.put("instance", payload.clientInstanceId().toString());
        push.put("terminating", payload.isTerminating());
        Map<String, Object> values = new TreeMap<>();
        ByteBuffer data = payload.data();
        for (ResourceMetrics resource : MetricsData.parseFrom(data).getResourceMetricsList()) {
            push.put("resource", attributes(resource.getResource().getAttributesList()));
            for (ScopeMetrics scope : resource.getScopeMetricsList()) {
                scope.getMetricsList().forEach(metric -> add(values, metric));
            }
        }
        push.put("values", values);
        return push;
    }

    private static void add(Map<String, Object> values, Metric metric) {
        String kind =
                metric.hasSum() ? metric.getSum().getAggregationTemporality().name() : "GAUGE";
        List<NumberDataPoint> points =
                metric.hasSum()
                        ? metric.getSum().getDataPointsList()
                        : metric.getGauge().getDataPointsList();
        for (NumberDataPoint point : points) {
            Map<String, String> tags = attributes(point.getAttributesList());
            String name = tags.isEmpty() ? metric.getName() : metric.getName() + tags;
            values.put(name, List.of(kind.replace("AGGREGATION_TEMPORALITY_", ""), point.getAsDouble()));
        }
    }

    private static Map<String, String> attributes(List<KeyValue> given) {
        Map<String, String> found = new TreeMap<>();
        given.forEach(each -> found.put(each.getKey(), each.getValue().getStringValue()));
        return found;
    }

    @Override
    public void init(List<KafkaMetric> metrics) {}

    @Override
    public void metricChange(KafkaMetric metric) {}

    @Override
    public void metricRemoval(KafkaMetric metric) {}

    @Override
    public void close() {}
}
