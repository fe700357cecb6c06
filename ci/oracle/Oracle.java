import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/**
 * The real RocksDB as a program that is controlled line by line, on standard input.
 *
 * <p>Words are separated by single spaces. Keys and values are hexadecimal, "-" denotes the
 * empty one. A FAMILY is a column family's name. OPTIONS is "name=value;name=value" as RocksDB's
 * own option strings are, without spaces.
 *
 * <pre>
 * a session
 *   directory PATH                      begins the description of the database in PATH
 *   database OPTIONS                    options of the database
 *   database-path PATH BYTES            one of its db_paths
 *   family FAMILY OPTIONS               a column family; "default" exists without being named
 *   family-path FAMILY PATH BYTES       one of its cf_paths
 *   load                                instead takes options and column families from the newest
 *                                       OPTIONS file, in which every name must be known, and
 *                                       which decides whether missing parts are created; it does
 *                                       not list db_paths
 *   open                                opens it, creating missing parts
 *   open-existing                       opens it; nothing may be missing
 *   open-read-only                      opens it for reading, while another process may write it
 *   close                               closes it
 *   destroy                             instead removes it
 *
 * writes
 *   put FAMILY KEY VALUE
 *   merge FAMILY KEY OPERAND
 *   delete FAMILY KEY
 *   single-delete FAMILY KEY
 *   delete-range FAMILY FROM TO
 *   timed-put FAMILY KEY VALUE TIME     a value with the time of its write, in seconds since 1970
 *   begin, commit                       the writes between the two are one batch
 *   fill FAMILY COUNT SPACE SIZE SEED   puts COUNT random keys out of SPACE, with values of SIZE
 *                                       bytes of which half compress
 *   log on|off                          whether writes go to the write-ahead log
 *   sync on|off                         whether they are synced
 *
 * upkeep
 *   flush FAMILY                        and wait
 *   compact FAMILY                      everything, the last level too
 *   compact-to FAMILY LEVEL             everything, into that level
 *   change FAMILY OPTIONS               sets options that may change while it is open
 *   create FAMILY OPTIONS
 *   drop FAMILY
 *   checkpoint PATH                     makes a copy there
 *   flush-wal                           writes the logged records to the file, and syncs it
 *   snapshot                            takes a snapshot
 *   release                             releases all snapshots
 *
 * external tables
 *   external FILE FAMILY                begins a table: put, merge and delete now go into it
 *   finish                              completes it
 *   ingest FAMILY copy|move|behind FILE...   ingests tables, the newest last
 *
 * reading
 *   dump FILE                           writes every live entry of every family to FILE: the
 *                                       lengths of name, key and value in 4 bytes each,
 *                                       little-endian, then the three
 *   verify                              checks every checksum
 *   property FAMILY NAME                remembers a property, for the answer
 *   list-families                       remembers their names, also of a database that is not open
 *   live-files                          remembers its tables: of each the family, level, path,
 *                                       size, smallest and largest key, smallest and largest
 *                                       sequence number, and how many entries and deletions it
 *                                       has, with commas between
 *   updates SEQUENCE FILE               writes the batches since that sequence number to FILE: the
 *                                       length of each in 4 bytes, little-endian, then its bytes;
 *                                       and remembers "end", or the error that ended them
 *   sequence                            remembers the latest sequence number
 *
 * answer                                prints "ok" and the remembered lines, or "error" and the
 *                                       first error since the last answer; after an error all
 *                                       lines up to here are skipped and the database is closed
 * </pre>
 */
public final class Oracle {
  private Oracle() {}

  public static void main(String[] arguments) throws IOException {
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 20);
    Database database = new Database();
    String error = null;
    String line;
    while ((line = input.readLine()) != null) {
      if (line.equals("answer")) {
        System.out.println(error == null ? "ok " + database.takeRemembered() : "error " + error);
        System.out.flush();
        error = null;
      } else if (error == null) {
        try {
          database.run(line.split(" ", -1));
        } catch (Exception exception) {
          String shown = line.length() > 200 ? line.substring(0, 200) + "..." : line;
          error = (shown + ": " + exception).replace('\n', ' ');
          database.abandon();
        }
      }
    }
    database.abandon();
  }
}
