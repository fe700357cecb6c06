import java.io.BufferedOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.rocksdb.Checkpoint;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.CompactRangeOptions;
import org.rocksdb.ConfigOptions;
import org.rocksdb.DBOptions;
import org.rocksdb.DbPath;
import org.rocksdb.EnvOptions;
import org.rocksdb.FlushOptions;
import org.rocksdb.IngestExternalFileOptions;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.MutableColumnFamilyOptions;
import org.rocksdb.Options;
import org.rocksdb.OptionsUtil;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.Snapshot;
import org.rocksdb.SstFileWriter;
import org.rocksdb.TransactionLogIterator;
import org.rocksdb.WriteBatch;
import org.rocksdb.WriteOptions;

/** Describes, opens, writes, reads and closes one database at a time, as {@link Oracle} specifies. */
final class Database {
  static {
    RocksDB.loadLibrary();
  }

  private String directory;
  private String databaseOptions;
  private List<DbPath> databasePaths;
  private final Map<String, String> familyOptions = new LinkedHashMap<>();
  private final Map<String, List<DbPath>> familyPaths = new LinkedHashMap<>();

  private DBOptions loadedOptions;
  private final List<ColumnFamilyDescriptor> loadedFamilies = new ArrayList<>();

  private RocksDB open;
  private DBOptions openOptions;
  private final Map<String, ColumnFamilyHandle> families = new LinkedHashMap<>();
  private final Map<String, ColumnFamilyOptions> openFamilyOptions = new LinkedHashMap<>();
  private final List<Snapshot> snapshots = new ArrayList<>();
  private WriteOptions writeOptions = new WriteOptions();
  private WriteBatch batch;
  private SstFileWriter external;
  private String remembered = "";

  /** Executes one line, given as its words. */
  void run(String[] words) throws RocksDBException, IOException {
    switch (words[0]) {
      case "directory" -> begin(words[1]);
      case "database" -> databaseOptions = words[1];
      case "database-path" -> databasePaths.add(path(words[1], words[2]));
      case "family" -> familyOptions.put(words[1], words[2]);
      case "family-path" -> pathsOf(words[1]).add(path(words[2], words[3]));
      case "load" -> load();
      case "open" -> open(How.CREATE);
      case "open-existing" -> open(How.EXISTING);
      case "open-read-only" -> open(How.READ_ONLY);
      case "close" -> close();
      case "destroy" -> destroy();
      case "put", "merge", "delete", "single-delete", "delete-range" -> write(words);
      case "timed-put" -> timedPut(words);
      case "begin" -> batch = new WriteBatch();
      case "commit" -> commit();
      case "fill" -> fill(words);
      case "log" -> writeOptions.setDisableWAL(words[1].equals("off"));
      case "sync" -> writeOptions.setSync(words[1].equals("on"));
      case "flush" -> open.flush(new FlushOptions().setWaitForFlush(true), family(words[1]));
      case "compact" -> compact(words[1], -1);
      case "compact-to" -> compact(words[1], Integer.parseInt(words[2]));
      case "change" -> open.setOptions(
          family(words[1]), MutableColumnFamilyOptions.parse(words[2]).build());
      case "create" -> create(words[1], words[2]);
      case "drop" -> drop(words[1]);
      case "checkpoint" -> checkpoint(words[1]);
      case "flush-wal" -> open.flushWal(true);
      case "snapshot" -> snapshots.add(open.getSnapshot());
      case "release" -> release();
      case "external" -> beginExternal(words[1], words[2]);
      case "finish" -> finishExternal();
      case "ingest" -> ingest(words[1], words[2], List.of(words).subList(3, words.length));
      case "dump" -> dump(words[1]);
      case "verify" -> open.verifyChecksum();
      case "list-families" -> listFamilies();
      case "live-files" -> liveFiles();
      case "updates" -> updates(Long.parseLong(words[1]), words[2]);
      case "sequence" -> remembered += open.getLatestSequenceNumber();
      case "property" -> remembered += open.getProperty(family(words[1]), words[2]);
      default -> throw new IllegalArgumentException("there is no such command");
    }
  }

  /** Returns the recorded lines for the answer, and discards them. */
  String takeRemembered() {
    String taken = remembered.replace('\n', ' ');
    remembered = "";
    return taken;
  }

  /** Closes everything that is open, after an error or at the end. */
  void abandon() {
    try {
      close();
    } catch (RuntimeException exception) {
      System.err.println("cannot close: " + exception);
    }
  }

  private void begin(String path) {
    close();
    directory = path;
    databaseOptions = "";
    databasePaths = new ArrayList<>();
    familyOptions.clear();
    familyPaths.clear();
    familyOptions.put("default", "");
    loadedOptions = null;
    loadedFamilies.clear();
    writeOptions = new WriteOptions();
    remembered = "";
  }

  private static DbPath path(String path, String bytes) {
    return new DbPath(Path.of(path), Long.parseLong(bytes));
  }

  private List<DbPath> pathsOf(String family) {
    return familyPaths.computeIfAbsent(family, name -> new ArrayList<>());
  }

  /** The mode in which a database is opened: whether missing parts are created. */
  private enum How { CREATE, EXISTING, READ_ONLY }

  /** Takes the options and column families of the newest OPTIONS file. */
  private void load() throws RocksDBException {
    loadedOptions = new DBOptions();
    ConfigOptions strict = new ConfigOptions().setIgnoreUnknownOptions(false);
    OptionsUtil.loadLatestOptions(strict, directory, loadedOptions, loadedFamilies);
    familyOptions.clear();
    for (ColumnFamilyDescriptor family : loadedFamilies) {
      familyOptions.put(new String(family.getName(), StandardCharsets.UTF_8), "");
    }
  }

  private void open(How how) throws RocksDBException {
    if (loadedOptions != null) {
      openOptions = loadedOptions;
    } else {
      openOptions = databaseOptions();
      openOptions.setCreateIfMissing(how == How.CREATE);
      openOptions.setCreateMissingColumnFamilies(how == How.CREATE);
    }
    if (!databasePaths.isEmpty()) {
      openOptions.setDbPaths(databasePaths);
    }
    List<ColumnFamilyDescriptor> descriptors =
        loadedOptions != null ? loadedFamilies : describedFamilies();
    for (ColumnFamilyDescriptor family : descriptors) {
      String name = new String(family.getName(), StandardCharsets.UTF_8);
      openFamilyOptions.put(name, family.getOptions());
    }
    List<ColumnFamilyHandle> handles = new ArrayList<>();
    open = how == How.READ_ONLY
        ? RocksDB.openReadOnly(openOptions, directory, descriptors, handles)
        : RocksDB.open(openOptions, directory, descriptors, handles);
    for (ColumnFamilyHandle handle : handles) {
      families.put(new String(handle.getName(), StandardCharsets.UTF_8), handle);
    }
  }

  private DBOptions databaseOptions() {
    Properties properties = properties(databaseOptions);
    DBOptions options =
        properties.isEmpty() ? new DBOptions() : DBOptions.getDBOptionsFromProps(properties);
    if (options == null) {
      throw new IllegalArgumentException("RocksDB refuses options " + databaseOptions);
    }
    return options;
  }

  private List<ColumnFamilyDescriptor> describedFamilies() {
    List<ColumnFamilyDescriptor> descriptors = new ArrayList<>();
    for (Map.Entry<String, String> family : familyOptions.entrySet()) {
      descriptors.add(describedFamily(family.getKey(), family.getValue()));
    }
    return descriptors;
  }

  private ColumnFamilyDescriptor describedFamily(String name, String text) {
    byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
    return new ColumnFamilyDescriptor(bytes, familyOptions(name, text));
  }

  private ColumnFamilyOptions familyOptions(String name, String text) {
    Properties properties = properties(text);
    ColumnFamilyOptions options = properties.isEmpty()
        ? new ColumnFamilyOptions()
        : ColumnFamilyOptions.getColumnFamilyOptionsFromProps(properties);
    if (options == null) {
      throw new IllegalArgumentException("RocksDB refuses options " + text);
    }
    if (familyPaths.containsKey(name)) {
      options.setCfPaths(familyPaths.get(name));
    }
    return options;
  }

  private void close() {
    if (open != null) {
      release();
      families.values().forEach(ColumnFamilyHandle::close);
      open.close();
    }
    open = null;
    families.clear();
    openFamilyOptions.clear();
    batch = null;
    external = null;
  }

  private void destroy() throws RocksDBException {
    DBOptions options = databaseOptions();
    if (!databasePaths.isEmpty()) {
      options.setDbPaths(databasePaths);
    }
    ColumnFamilyDescriptor family = describedFamily("default", familyOptions.get("default"));
    RocksDB.destroyDB(directory, new Options(options, family.getOptions()));
  }

  private void checkpoint(String path) throws RocksDBException {
    try (Checkpoint checkpoint = Checkpoint.create(open)) {
      checkpoint.createCheckpoint(path);
    }
  }

  private ColumnFamilyHandle family(String name) {
    ColumnFamilyHandle family = families.get(name);
    if (family == null) {
      throw new IllegalArgumentException("there is no column family " + name);
    }
    return family;
  }

  private void write(String[] words) throws RocksDBException {
    byte[] key = bytes(words[2]);
    byte[] value = words.length > 3 ? bytes(words[3]) : new byte[0];
    if (external != null) {
      writeExternal(words[0], key, value);
      return;
    }
    ColumnFamilyHandle family = family(words[1]);
    WriteBatch target = batch != null ? batch : new WriteBatch();
    switch (words[0]) {
      case "put" -> target.put(family, key, value);
      case "merge" -> target.merge(family, key, value);
      case "delete" -> target.delete(family, key);
      case "single-delete" -> target.singleDelete(family, key);
      default -> target.deleteRange(family, key, value);
    }
    if (batch == null) {
      open.write(writeOptions, target);
      target.close();
    }
  }

  /** Adds the record to an encoded batch, because the binding has no method for timed puts. */
  private void timedPut(String[] words) throws RocksDBException {
    byte[] key = bytes(words[2]);
    byte[] value = bytes(words[3]);
    WriteBatch before = batch != null ? batch : new WriteBatch();
    byte[] data = before.data();
    ByteBuffer bytes = ByteBuffer.allocate(data.length + key.length + value.length + 24)
        .order(ByteOrder.LITTLE_ENDIAN);
    bytes.put(data).put((byte) 0x19);
    putVarint(bytes, family(words[1]).getID());
    putVarint(bytes, key.length);
    bytes.put(key);
    putVarint(bytes, value.length + Long.BYTES);
    bytes.put(value).putLong(Long.parseUnsignedLong(words[4]));
    bytes.putInt(8, before.count() + 1);
    WriteBatch target = new WriteBatch(Arrays.copyOf(bytes.array(), bytes.position()));
    before.close();
    if (batch != null) {
      batch = target;
    } else {
      open.write(writeOptions, target);
      target.close();
    }
  }

  private static void putVarint(ByteBuffer bytes, int number) {
    for (; number > 127; number >>>= 7) {
      bytes.put((byte) (number | 128));
    }
    bytes.put((byte) number);
  }

  private void commit() throws RocksDBException {
    open.write(writeOptions, batch);
    batch.close();
    batch = null;
  }

  private void fill(String[] words) throws RocksDBException {
    ColumnFamilyHandle family = family(words[1]);
    long count = Long.parseLong(words[2]);
    long space = Long.parseLong(words[3]);
    byte[] value = new byte[Integer.parseInt(words[4])];
    Random random = new Random(Long.parseLong(words[5]));
    byte[] half = new byte[value.length / 2];
    WriteBatch target = new WriteBatch();
    for (long written = 1; written <= count; written++) {
      String key = String.format("key%013d", Math.floorMod(random.nextLong(), space));
      random.nextBytes(half);
      System.arraycopy(half, 0, value, 0, half.length);
      target.put(family, key.getBytes(StandardCharsets.UTF_8), value);
      if (written % 100 == 0 || written == count) {
        open.write(writeOptions, target);
        target.clear();
      }
    }
    target.close();
  }

  private void compact(String family, int level) throws RocksDBException {
    CompactRangeOptions options = new CompactRangeOptions();
    options.setBottommostLevelCompaction(
        CompactRangeOptions.BottommostLevelCompaction.kForceOptimized);
    if (level >= 0) {
      options.setChangeLevel(true).setTargetLevel(level);
    }
    open.compactRange(family(family), null, null, options);
  }

  private void create(String name, String text) throws RocksDBException {
    ColumnFamilyDescriptor family = describedFamily(name, text);
    openFamilyOptions.put(name, family.getOptions());
    families.put(name, open.createColumnFamily(family));
  }

  private void drop(String family) throws RocksDBException {
    open.dropColumnFamily(family(family));
    families.remove(family).close();
  }

  private void release() {
    snapshots.forEach(open::releaseSnapshot);
    snapshots.clear();
  }

  private void beginExternal(String file, String family) throws RocksDBException {
    Options options = new Options(openOptions, openFamilyOptions.get(family));
    external = new SstFileWriter(new EnvOptions(), options);
    external.open(file);
  }

  private void writeExternal(String what, byte[] key, byte[] value) throws RocksDBException {
    switch (what) {
      case "put" -> external.put(key, value);
      case "merge" -> external.merge(key, value);
      case "delete" -> external.delete(key);
      default -> throw new IllegalArgumentException("an external table takes no " + what);
    }
  }

  private void finishExternal() throws RocksDBException {
    external.finish();
    external.close();
    external = null;
  }

  private void ingest(String family, String how, List<String> files) throws RocksDBException {
    IngestExternalFileOptions options = new IngestExternalFileOptions();
    options.setMoveFiles(how.equals("move")).setIngestBehind(how.equals("behind"));
    open.ingestExternalFile(family(family), files, options);
  }

  private void listFamilies() throws RocksDBException {
    List<String> names = new ArrayList<>();
    for (byte[] name : RocksDB.listColumnFamilies(new Options(), directory)) {
      names.add(new String(name, StandardCharsets.UTF_8));
    }
    remembered += String.join(" ", names);
  }

  private void liveFiles() {
    List<String> files = new ArrayList<>();
    for (LiveFileMetaData file : open.getLiveFilesMetaData()) {
      files.add(String.join(",",
          new String(file.columnFamilyName(), StandardCharsets.UTF_8),
          Integer.toString(file.level()),
          file.path() + file.fileName(),
          Long.toString(file.size()),
          hex(file.smallestKey()),
          hex(file.largestKey()),
          Long.toString(file.smallestSeqno()),
          Long.toString(file.largestSeqno()),
          Long.toString(file.numEntries()),
          Long.toString(file.numDeletions())));
    }
    remembered += String.join(" ", files);
  }

  private void updates(long sequence, String file) throws IOException {
    String end = "end";
    try (OutputStream output = new BufferedOutputStream(new FileOutputStream(file), 1 << 20);
        TransactionLogIterator iterator = open.getUpdatesSince(sequence)) {
      for (; iterator.isValid(); iterator.next()) {
        try (WriteBatch found = iterator.getBatch().writeBatch()) {
          byte[] bytes = found.data();
          ByteBuffer length = ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN);
          output.write(length.putInt(bytes.length).array());
          output.write(bytes);
        }
      }
      iterator.status();
    } catch (RocksDBException exception) {
      end = exception.getMessage();
    }
    remembered += end;
  }

  private void dump(String file) throws RocksDBException, IOException {
    List<ColumnFamilyHandle> inOrder = new ArrayList<>(families.values());
    inOrder.sort(Comparator.comparingInt(ColumnFamilyHandle::getID));
    ReadOptions options = new ReadOptions().setTotalOrderSeek(true).setVerifyChecksums(true);
    try (OutputStream output = new BufferedOutputStream(new FileOutputStream(file), 1 << 20)) {
      for (ColumnFamilyHandle family : inOrder) {
        try (RocksIterator iterator = open.newIterator(family, options)) {
          for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
            writeEntry(output, family.getName(), iterator.key(), iterator.value());
          }
          iterator.status();
        }
      }
    }
  }

  private static void writeEntry(OutputStream output, byte[]... parts) throws IOException {
    ByteBuffer lengths = ByteBuffer.allocate(12).order(ByteOrder.LITTLE_ENDIAN);
    for (byte[] part : parts) {
      lengths.putInt(part.length);
    }
    output.write(lengths.array());
    for (byte[] part : parts) {
      output.write(part);
    }
  }

  private static String hex(byte[] bytes) {
    return bytes.length == 0 ? "-" : HexFormat.of().formatHex(bytes);
  }

  private static byte[] bytes(String hex) {
    if (hex.equals("-")) {
      return new byte[0];
    }
    byte[] bytes = new byte[hex.length() / 2];
    for (int at = 0; at < bytes.length; at++) {
      int high = Character.digit(hex.charAt(2 * at), 16);
      bytes[at] = (byte) (high << 4 | Character.digit(hex.charAt(2 * at + 1), 16));
    }
    return bytes;
  }

  /** Parses "name=value;name=value"; a value in braces may contain semicolons. */
  private static Properties properties(String text) {
    Properties properties = new Properties();
    int depth = 0;
    int start = 0;
    for (int at = 0; at <= text.length(); at++) {
      char here = at == text.length() ? ';' : text.charAt(at);
      depth += here == '{' ? 1 : here == '}' ? -1 : 0;
      if (here == ';' && depth == 0) {
        String option = text.substring(start, at);
        start = at + 1;
        int equals = option.indexOf('=');
        if (equals > 0) {
          properties.setProperty(option.substring(0, equals), option.substring(equals + 1));
        }
      }
    }
    return properties;
  }
}
