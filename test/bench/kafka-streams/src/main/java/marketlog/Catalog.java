package marketlog;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.avro.util.Utf8;

/** One version of the catalog: item ids by name and phase, from lines of `id TAB phase TAB name`. */
final class Catalog {
    static final int UNKNOWN = -1;
    private static final Utf8 NO_PHASE = new Utf8("");

    final String version;
    private final Map<Utf8, Map<Utf8, Integer>> byName = new HashMap<>();

    Catalog(Path file, String itsVersion) throws IOException {
        version = itsVersion;
        for (String line : Files.readAllLines(file)) {
            String[] parts = line.split("\t", 3);
            byName.computeIfAbsent(new Utf8(parts[2]), name -> new HashMap<>(2))
                .put(new Utf8(parts[1]), Integer.valueOf(parts[0]));
        }
    }

    int idOf(Utf8 name, Utf8 phase) {
        Map<Utf8, Integer> items = byName.get(name);
        Integer found = items == null ? null : items.get(phase == null ? NO_PHASE : phase);
        return found == null ? UNKNOWN : found;
    }
}
