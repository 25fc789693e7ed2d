# Each line is a program for bash; what it does is compared (executables.py --work). Missing programs only print that.
git init -q . && git config user.email a@b && git config user.name a && echo x >f && git add f && GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z git commit -qm m && git log -p | cat
seq 200000 | sort -R --random-source=/usr/bin/ls | sort -n | md5sum
seq 100000 | gzip -9 | md5sum
tar --sort=name --mtime=@0 -cf - /usr/share/doc/bash 2>/dev/null | md5sum
seq 100000 | xz -T2 | xz -d | md5sum
perl -e 'my %h; $h{$_%1000}+=$_ for 1..200000; print join(",",map{$h{$_}}0..9),"\n"; system("echo child"); print `echo tick`; fork or exit 3; wait; print $?>>8, "\n"'
awk 'BEGIN{for(i=0;i<300000;i++)s+=i*i; print s; system("echo sub"); "date -u -d @0" | getline d; print d}'
printf '#include <stdio.h>\nint main(void){printf("hi %%d\\n",42);return 7;}\n' >a.c; gcc -O2 a.c -o a && ./a; echo $?; objdump -d a | md5sum
printf '#include <iostream>\n#include <vector>\nint main(){std::vector<int> v(100000,3);long s=0;for(int x:v)s+=x;std::cout<<s<<"\\n";}\n' >a.cc; g++ -O1 a.cc -o b && ./b; gcc -fsanitize=address a.c -o c 2>&1; echo done
node -e 'const {execSync}=require("child_process");let s=0;for(let i=0;i<1e6;i++)s+=i;console.log(s,execSync("echo child").toString());new (require("worker_threads").Worker)("console.log(1+1)",{eval:true})'
java -version 2>&1
printf 'class A{public static void main(String[] a)throws Exception{long s=0;for(int i=0;i<1000000;i++)s+=i;System.out.println(s);Thread t=new Thread(()->System.out.println("t"));t.start();t.join();Process p=new ProcessBuilder("echo","child").start();System.out.print(new String(p.getInputStream().readAllBytes()));System.exit(3);}}' >A.java; java A.java; echo $?
stdbuf -oL ls / ; stdbuf -o0 cat /etc/hostname
fakeroot sh -c 'touch x; chown 1234 x; stat -c %u x; id -u'
env -i sh -c 'echo $HOME; ls /usr/share/doc/bash'
env -i /usr/bin/python3 -c 'import os,subprocess; print(sorted(os.environ)); print(subprocess.run(["echo","a"],env={}).returncode)' | sed "s/'LD_PRELOAD', //; s/'SCALENE_TRACE_SPOOL'//; s/, ]/]/"
unshare -r id -u; unshare -r -m -p -f --mount-proc ps -o comm=
setsid -w sh -c 'trap "echo got" USR1; kill -USR1 $$; echo end'
timeout -s KILL 0.2 sleep 5; echo $?; timeout 0.2 sh -c 'trap "echo term; exit 5" TERM; while :; do :; done'; echo $?
sh -c 'kill -SEGV $$'; echo $?; sh -c 'kill -31 $$'; echo $?; sh -c 'kill -61 $$'; echo $?; sh -c 'ulimit -c 0; kill -ABRT $$'; echo $?
bash -c 'trap "echo rt" RTMAX-3; kill -RTMAX-3 $$; echo after'; bash -c 'kill -l | md5sum; trap -p'
bash -c 'coproc head -1; echo hi >&${COPROC[1]}; read x <&${COPROC[0]}; echo $x; for i in 1 2 3; do (exit $i) & done; wait; echo $?; wait -n; echo $?'
bash -c 'ulimit -n 32; exec 5</dev/null; for i in $(seq 3 31); do eval "exec $i</dev/null" || echo fail $i; done 2>&1; echo ok'
bash -c 'ulimit -v 300000; ls / | head -2; perl -e "my \$x = \"a\" x 400000000; print length(\$x)" 2>&1'
bash -c 'ulimit -f 4; head -c 100000 /dev/zero > big; echo $?; ls -l big | cut -d" " -f5'
bash -c 'ulimit -t 1; while :; do :; done'; echo $?
bash -c 'ulimit -i 0; for i in 1 2 3; do perl -e "my \$s=0; \$s+=\$_ for 1..300000; print \$s, qq(\n)"; done; x=0; while [ $x -lt 60000 ]; do x=$((x+1)); done; echo $x'
bash -c 'ulimit -s 128; perl -e "print 1+1"; ls / | wc -l'
sqlite3 :memory: 'create table t(a); with recursive c(x) as (select 1 union all select x+1 from c where x<100000) insert into t select x from c; select sum(a) from t;'
openssl rand 100000 | wc -c; openssl enc -aes-256-cbc -pbkdf2 -k a -nosalt -in /usr/bin/ls | md5sum; echo a | openssl dgst -sha256
ssh-keygen -q -t ed25519 -N "" -f k && ls k k.pub; ssh-agent sh -c 'ssh-add k 2>/dev/null; ssh-add -l | cut -d" " -f1,3'
ssh -o BatchMode=yes -o ConnectTimeout=1 localhost true; echo $?
gpg --batch --gen-random 1 16 | wc -c; echo hi | gpg --batch --print-md sha1
dpkg -l bash | tail -1; dpkg -S /bin/ls; dpkg-query -W bash
apt-cache policy bash | head -3
man -P cat ls | md5sum; info --version | head -1
file /bin/ls /usr/bin/ldd; readelf -d /bin/ls | md5sum; nm -D /bin/ls | md5sum
find /usr/share/doc -maxdepth 1 | sort | md5sum; find /usr/bin -type f -print0 | xargs -0 -P2 -n50 cat | wc -c
su nobody -s /bin/sh -c 'id -un; echo $HOME'; setpriv --reuid 65534 --clear-groups id -u; chroot / id -u; nohup echo hup; nice -n 5 nice; ionice -c3 true
script -qc 'tty; stty size; echo in' /dev/null; 
vim -u NONE -es -c 'call setline(1,["b","a"])' -c sort -c 'w out' -c q; cat out; ex -s -c 'r out' -c '%p' -c q!
printf 'all: a b; @echo all\na b: ; @sleep 0.05\n' >M; make -s -j2 -f M
strace -e trace=exit_group true 2>&1
gdb -batch -ex 'handle SIG61 nostop noprint pass' -ex run --args /bin/true 2>&1 | grep -o exited
valgrind -q true; echo $?
psql --version; /usr/lib/postgresql/15/bin/postgres --version
curl -s file:///etc/hostname | md5sum; wget -q -O - http://127.0.0.1:1/ ; echo $?
rsync -a /usr/share/doc/bash/ d/ && ls d | md5sum; cmp /bin/ls /bin/cat; diff -r d /usr/share/doc/bash && echo same
socat -V | head -1; nc -z 127.0.0.1 1; echo $?
busybox sh -c 'echo bb; ls / | wc -l'; dash -c 'echo d; exec ls /'
cat /proc/self/limits; cat /proc/self/status | grep -E 'Sig(P|B|I)|ShdPnd|Cap|NoNew|Seccomp|Threads'
cat /proc/self/stat | cut -d' ' -f2,3; cat /proc/self/cmdline | tr '\0' ' '
perl -MTime::HiRes=alarm,sleep -e '$SIG{ALRM}=sub{print "alrm\n"}; alarm 0.05; sleep 0.2; $SIG{RTMAX}=sub{print "rt\n"}; kill RTMAX=>$$; $SIG{CHLD}="IGNORE"; fork or exit; print wait,"\n"'
emacs --batch --eval '(message "%s" (+ 1 2))' 2>&1; ruby -e 'p (1..1000).sum; puts `echo c`; fork{exit 3}; Process.wait; p $?.exitstatus; Thread.new{p 1}.join'; php -r 'echo 1+1;'; lua -e 'print(1)'; tclsh <<<'puts [exec echo a]'
python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs,[-1,-2]))'; python3 -X faulthandler -c 'import os; os.abort()' 2>&1 | head -3; python3 -c 'import ctypes; ctypes.string_at(0)'; echo $?
python2 -c 'print 1' ; python3.8 -c 'print(1)'; 
go version; go env GOOS; rustc --version; cargo --version
gunzip -c </dev/null; zcat </dev/null; cat <&-; echo hi >&-; echo $?; ls >&- 2>&-; echo $?
